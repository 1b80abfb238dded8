"""The claims of Alasmar's chapter 5 about traffic volume, on traffic whose law is known."""
