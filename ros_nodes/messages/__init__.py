"""Topics: types to messages and back, quality of service, what nodes keep of what they receive."""
