"""TeamEnv behind the interfaces of other learning libraries; importing one needs that library."""
