#!/bin/bash -eu
# OSS-Fuzz runs this in its Python image; see google.github.io/oss-fuzz, "Integrating a Python project".
# Another project's: put `pip3 install .` of your own package first, so that your sources are what is fuzzed.
pip3 install "kafkaproof[fuzz,testees]"
kafkaproof fuzz export "$OUT/exported"
# What is imported by name, and tables, are not seen by PyInstaller, which compile_python_fuzzer hands these options to.
packages=()
for package in kafka_records kafka_corpus kafka_conformance kafka_fuzz kafka aiokafka; do
  packages+=(--collect-all "$package")
done
for program in "$OUT"/exported/fuzz_*.py; do
  compile_python_fuzzer "$program" "${packages[@]}"
done
mv "$OUT"/exported/*.zip "$OUT"/exported/*.dict "$OUT"
rm -r "$OUT/exported"
