"""A race: an item is given to a taker, and the taker is cancelled, in the same pass of the loop or nearly so."""
