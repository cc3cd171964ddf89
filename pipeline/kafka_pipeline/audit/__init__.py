"""Checks of a log at rest: pure functions over stretches of segments, joined to one report.

findings     what is found, how bad it is, and its rule
    entries      entries as columns, checks of one entry by itself, offsets and leader epochs from entry to entry;
                 the columns as the reference fills them
    kernels      the same columns, filled by compiled kernels
    producers    sequences, epochs and transactions of each producer
    indexes      the files beside a segment
    counting     what is only counted
    stretch      all of it for a stretch: a summary
    joining      the summaries of a log, in order, to what is wrong with it

A stretch is judged without what comes before it; what that leaves open is in
its summary, and settled when summaries are joined.  So stretches can be judged
anywhere and in any order, in memory that does not depend on their size.

local      all segments of a directory on this machine, in a pool of processes
job        the same with files and a manifest, here or as a Spark job
follow     a live directory, round by round, and numbers for Prometheus
page       one HTML page, with charts
"""
