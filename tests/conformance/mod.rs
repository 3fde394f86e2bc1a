//! The driver suite: every promise of the store traits, for every driver.
