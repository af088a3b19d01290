"""The pipeline's arithmetic on columns: numpy and Arrow, no Spark, no Java."""
