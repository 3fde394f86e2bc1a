//! Wraps the prose of the documents that benchmarks write.

const COLUMNS_MAX: usize = 100;

/// Wraps lines at 100 columns. Tables and headings stay as they are.
pub(crate) fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        if line.starts_with(['|', '#', '!']) {
            wrapped += line;
        } else {
            let mut columns = 0;
            for word in line.split_whitespace() {
                let length = word.chars().count();
                if columns > 0 {
                    let fits = columns + 1 + length <= COLUMNS_MAX;
                    wrapped.push(if fits { ' ' } else { '\n' });
                    columns = if fits { columns + 1 } else { 0 };
                }
                wrapped += word;
                columns += length;
            }
        }
        wrapped.push('\n');
    }
    wrapped
}
