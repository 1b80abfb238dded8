"""Running a scenario, in virtual time or under the wall clock."""
