"""Results to text: `terminal` for people, `machine` for programs. Reporters take results and know no more."""
