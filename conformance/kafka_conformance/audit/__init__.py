"""`kafkaproof pipeline audit`: log directories judged where Spark runs, and the report of what was found.

job        stretches to shards, summaries to reports, files with a manifest
command    the command line
charts     what is in a log, as SVG
page       one HTML page
"""
