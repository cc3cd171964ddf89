"""Real brokers as the oracle: which releases there are, how one is started, and how requests are sent.

`kafka_brokers.wire` speaks to a broker with bytes of our own, so that
no client hides an error; `local`, `container` and `external` are the three ways
to get one.
"""
