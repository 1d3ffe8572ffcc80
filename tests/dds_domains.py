"""Domains of Cyclone DDS for tests, each for one."""

import os
from itertools import count

DOMAINS = (20 + (7 * os.getpid() + number) % 200 for number in count())  # apart from those of other tests at work
