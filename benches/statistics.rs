//! Medians and percentiles.

/// Sorts the values. Returns the value that this percentage of the values do not exceed.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
}

/// Returns the value in the middle, or the mean of both.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = |count: usize| values.get(count / 2).copied().unwrap_or(f64::NAN);
    f64::midpoint(middle(values.len().saturating_sub(1)), middle(values.len()))
}
