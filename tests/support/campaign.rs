//! The tests of campaigns, and their size, which environment variables set for their long forms.

/// Makes a test of each campaign: its name, and the call that runs it.
#[macro_export]
macro_rules! campaigns {
    ($($(#[$about:meta])* $test:ident: $campaign:expr;)*) => {$(
        $(#[$about])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $campaign.await;
        }
    )*};
}

/// Returns the size that the variable sets, or the size of the short form.
pub fn size(variable: &str, short: usize) -> usize {
    long_size(variable).unwrap_or(short)
}

/// Returns the size that the variable sets, or `None` if it is not set.
pub fn long_size(variable: &str) -> Option<usize> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; it must be a number")))
}
