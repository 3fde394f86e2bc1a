//! The size of campaigns, which environment variables set for their long forms.

/// Returns the size that the variable sets, or the size of the short form.
pub fn size(variable: &str, short: usize) -> usize {
    long_size(variable).unwrap_or(short)
}

/// Returns the size that the variable sets, or `None` if it is not set.
pub fn long_size(variable: &str) -> Option<usize> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; it must be a number")))
}
