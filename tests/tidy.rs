//! The house rules, held by a test: which layer may use what, and how files begin and end.
