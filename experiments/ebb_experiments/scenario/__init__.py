"""What is run: scenario files, and everything that they name."""
