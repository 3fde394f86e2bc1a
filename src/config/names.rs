//! The names of options in the environment, and suggestions for misspelled names.

/// A variable for tests: if it is set, tests can move the clock of each queue in Redis, and a
/// service listens on loopback addresses only. It is not an option.
pub(super) const MOVABLE_CLOCK: &str = "SUKKAL_MOVABLE_CLOCK";
/// The variable of many other programs that filters their log.
pub(super) const RUST_LOG: &str = "RUST_LOG";
/// The variables of OpenTelemetry that name a collector. Only an option names it for Sukkal.
pub(super) const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const PREFIX: &str = "SUKKAL_";
const SECTION_SEPARATOR: &str = "__";
/// The variables of the command line, which is a client of the service. They are not options.
const CLIENT: [&str; 11] = [
    "CACERT",
    "CERT",
    "CLIENT_ID",
    "CONTEXT",
    "CREDENTIALS",
    "CREDENTIALS_FILE",
    "JSON",
    "PROJECT",
    "RETRY",
    "TOKEN",
    "URL",
];
/// Maximum number of wrong, missing or extra characters in a name for which an option is suggested.
const TYPOS_MAX: usize = 3;

/// Returns the environment variable of an option: `SUKKAL_TRANSPORT__MAX_WAIT` for
/// `transport.max_wait`.
pub(super) fn variable_of(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('.', SECTION_SEPARATOR).to_uppercase())
}

/// Returns the option name of an environment variable, which may not exist. Returns `None` for a
/// variable of another program or of the command line.
pub(super) fn option_of(variable: &str, value: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX)?;
    if CLIENT.contains(&name) || is_service_discovery(name, value) {
        None
    } else {
        Some(name.to_lowercase().replacen(SECTION_SEPARATOR, ".", 1))
    }
}

/// Returns the variable of the command line that a misspelled variable most resembles; `None` if
/// the variable is known, or resembles one of these options more.
pub(super) fn client_variable_meant_by(
    variable: &str,
    value: &str,
    options: impl Iterator<Item = String>,
) -> Option<String> {
    let name = option_of(variable, value)?;
    let (of_client, options) = (CLIENT.map(str::to_lowercase), options.collect::<Vec<_>>());
    // An option resembles itself most.
    let meant = nearest(&name, of_client.iter().chain(&options).map(String::as_str))?;
    of_client.iter().any(|name| name == meant).then(|| variable_of(meant))
}

/// Returns whether Kubernetes or Docker sets this variable for a service whose name begins with
/// `sukkal`.
fn is_service_discovery(name: &str, value: &str) -> bool {
    let has_address = value.starts_with("tcp://") || value.starts_with("udp://");
    // An option named port follows the separator of its section, before which no service name ends.
    let is_option = name.ends_with("__PORT") && !has_address;
    let is_port = name.ends_with("_PORT") && !is_option
        || name.split_once("PORT_").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_address = name.ends_with("SERVICE_HOST") || name.contains("SERVICE_PORT");
    is_address || is_port || has_address
}

/// Returns the option with the most similar name, if any name is similar.
pub(super) fn nearest<'o>(name: &str, mut options: impl Iterator<Item = &'o str>) -> Option<&'o str> {
    // Many programs name their own port like this. The options named `port` are for other servers.
    if name == "port" {
        return options.find(|option| *option == "bind");
    }
    let bare = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |option: &str| {
        let whole = strsim::osa_distance(name, option);
        // The section may be missing or wrong.
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
        assert_eq!(option_of("SUKKAL_MAIL__PORT", "587").as_deref(), Some("mail.port"));
        assert_eq!(option_of("HOME", "/"), None);
    }

    #[test]
    fn the_variables_of_a_kubernetes_service_are_not_options() {
        assert_eq!(option_of("SUKKAL_PORT", "9000").as_deref(), Some("port"));
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
    fn an_option_is_suggested_for_a_misspelled_name() {
        let options = ["store", "bind", "transport.max_wait", "transport.max_claim_ttl", "log.filter", "mail.port"];
        for (name, meant) in [
            ("stroe", Some("store")),
            ("transport_max_wait", Some("transport.max_wait")),
            ("max_wait", Some("transport.max_wait")),
            ("trasnport.max_wiat", Some("transport.max_wait")),
            ("signed_url.max_wait", Some("transport.max_wait")),
            ("port", Some("bind")),
            ("color", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, options.into_iter()), meant, "{name}");
        }
    }
}
