"""What is learned from journals and workloads with Spark: nothing outside this package imports it."""
