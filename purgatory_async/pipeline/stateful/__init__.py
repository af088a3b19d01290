"""The distributed purgatory's two stages as Spark runs them: thin shells around the kernels of the same name."""
