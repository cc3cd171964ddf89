"""Checks of a log at rest: pure functions over stretches of segments, joined to one report.

findings     what is found, how bad it is, and its rule
    facts        what the records of each entry amount to, by a kernel
    entries      checks of one entry by itself
    order        offsets and leader epochs from entry to entry
    producers    sequences, epochs and transactions of each producer
    indexes      the files beside a segment
    counting     what is only counted
    stretch      all of it for a stretch: a summary
    joining      the summaries of a log, in order, to what is wrong with it

A stretch is judged without what comes before it; what that leaves open is in
its summary, and settled when summaries are joined.  So stretches can be judged
anywhere and in any order, in memory that does not depend on their size.

local      all segments of a directory on this machine, in a pool of processes
job        the same as a Spark job, with files and a manifest
page       one HTML page, with charts
"""
