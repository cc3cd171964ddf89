module my-codec/testee

go 1.21
