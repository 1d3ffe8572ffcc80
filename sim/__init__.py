"""What a policy learns in: scenes, physics back ends, team environments, terms, randomisation and tasks."""
