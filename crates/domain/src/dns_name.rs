//! Names of hosts.

/// Maximum length of a DNS name and of a label in it, in bytes.
const NAME_BYTES_MAX: usize = 254;
const LABEL_BYTES_MAX: usize = 63;

/// Returns whether a name can be looked up: RFC 1035, section 2.3.4, with underscores.
pub(super) fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= NAME_BYTES_MAX && name.strip_suffix('.').unwrap_or(name).split('.').all(is_label)
}
