"""What is asked of mutants: public functions and commands of the package."""
