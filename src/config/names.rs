//! How options are called in the environment, and which option a wrong name was meant for.

const PREFIX: &str = "SUKKAL_";
const SECTION_END: &str = "__";
/// Maximum number of wrong, missing or superfluous characters in a name that is still recognized.
const TYPOS_MAX: usize = 3;

/// The environment variable of an option: `SUKKAL_TRANSPORT__MAX_WAIT` for `transport.max_wait`.
pub(super) fn variable_of(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('.', SECTION_END).to_uppercase())
}

/// The option that an environment variable names, whether there is one or not; `None` for a variable of another program.
pub(super) fn option_of(variable: &str, value: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX)?;
    if is_of_a_service(name, value) { None } else { Some(name.to_lowercase().replacen(SECTION_END, ".", 1)) }
}

/// Whether Kubernetes or Docker sets this variable for a service whose name begins with `sukkal`.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let has_address = value.starts_with("tcp://") || value.starts_with("udp://");
    let is_port = name == "PORT"
        || name.ends_with("_PORT")
        || name.split_once("PORT_").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_address = name.ends_with("SERVICE_HOST") || name.contains("SERVICE_PORT");
    is_address || is_port || has_address
}

/// The option whose name is most like this one, if any is.
pub(super) fn nearest<'o>(name: &str, options: impl Iterator<Item = &'o str>) -> Option<&'o str> {
    let bare = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |option: &str| {
        let whole = strsim::osa_distance(name, option);
        // The section may be missing, or another one.
        whole.min(strsim::osa_distance(&bare(name), &bare(option)))
    };
    let most = TYPOS_MAX.min(bare(name).len() / 2);
    options.map(|option| (distance(option), option)).filter(|(typos, _)| *typos <= most).min().map(|(_, option)| option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_named_after_its_option() {
        assert_eq!(variable_of("transport.max_wait"), "SUKKAL_TRANSPORT__MAX_WAIT");
        assert_eq!(option_of("SUKKAL_TRANSPORT__MAX_WAIT", "30").as_deref(), Some("transport.max_wait"));
        assert_eq!(option_of("HOME", "/"), None);
    }

    #[test]
    fn the_variables_of_a_service_in_kubernetes_are_not_ours() {
        for (name, value) in [
            ("SUKKAL_SERVICE_HOST", "10.0.0.1"),
            ("SUKKAL_SERVICE_PORT", "8888"),
            ("SUKKAL_SERVICE_PORT_HTTP", "8888"),
            ("SUKKAL_PORT", "tcp://10.0.0.1:8888"),
            ("SUKKAL_PORT_8888_TCP", "tcp://10.0.0.1:8888"),
            ("SUKKAL_PORT_8888_TCP_ADDR", "10.0.0.1"),
            ("SUKKAL_REDIS_SERVICE_HOST", "10.0.0.2"),
            ("SUKKAL_REDIS_PORT_6379_TCP_PROTO", "tcp"),
        ] {
            assert_eq!(option_of(name, value), None, "{name}");
        }
    }

    #[test]
    fn a_mistyped_name_is_recognized() {
        let options = ["store", "bind", "transport.max_wait", "transport.max_claim_ttl", "log.filter"];
        for (name, meant) in [
            ("stroe", Some("store")),
            ("transport_max_wait", Some("transport.max_wait")),
            ("max_wait", Some("transport.max_wait")),
            ("trasnport.max_wiat", Some("transport.max_wait")),
            ("signed_url.max_wait", Some("transport.max_wait")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, options.into_iter()), meant, "{name}");
        }
    }
}
