"""Every command of our command line against Apache Kafka and against us, and the facts of Kafka's own tools beside ours."""
