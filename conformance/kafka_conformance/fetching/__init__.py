"""`fetch:COMMAND`: any client that can consume from an address, as a testee.

A process of ours holds a fake broker and speaks the testee protocol; the
user's command consumes from the broker.  With `{topic}` in it the command is
run for each case (`{bootstrap}` and `{partition}` are filled too), prints a line
for each record, and ends, or is ended when it printed the end record.  Without,
it stays up: it gets `{"bootstrap", "topic", "partition", "offset", "end"}` on a
line for each case, and answers with a line.  `lines` has both formats.
"""
