"""MJX and Brax, and programs of JAX made from torch functions."""
