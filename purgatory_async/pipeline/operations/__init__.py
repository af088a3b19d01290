"""Operations out of records: dealt into buckets, paired, and surveyed by node."""
