module kafkaproof/testees/optiopay-kafka

go 1.21

require github.com/golang/snappy v0.0.4
