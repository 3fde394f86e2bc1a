//! Which options of `[mail]` need others.

use super::SignedUrl;
use sukkal_domain::MailConfig;

/// Succeeds if no option is missing that another one needs. The error names the missing one.
pub(super) fn check(mail: &MailConfig, signed_url: &SignedUrl) -> Result<(), String> {
    let is_on = !mail.host.is_empty();
    let has_password = mail.password.reveal().is_some();
    let has_file = !mail.password_file.is_empty();
    let confirms =
        "because recipients confirm with the link in a mail; with trusted_recipients = [\"*\"], nobody has to";
    if is_on && mail.sender.is_none() {
        return Err("mail.host is set, so mail.sender must be set too".to_owned());
    }
    if has_password && has_file {
        return Err("mail.password and mail.password_file are both set; set one of them".to_owned());
    }
    if mail.username.is_empty() == (has_password || has_file) {
        return Err("mail.username and mail.password (or mail.password_file) must be set together".to_owned());
    }
    if is_on && mail.needs_confirmations() {
        if signed_url.secret_key.reveal().is_none() {
            return Err(format!("mail.host is set, so signed_url.secret_key must be set too, {confirms}"));
        }
        if mail.api_url.is_empty() {
            return Err(format!("mail.host is set, so mail.api_url must be set too, {confirms}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    /// Returns the warnings for these options, or the error.
    fn load(file: &str) -> Result<Vec<String>, String> {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file).unwrap();
        Config::load(Some(path.path()), [], &[]).map(|config| config.warnings).map_err(|error| error.to_string())
    }

    const KEY: &str = "[signed_url]\nsecret_key = \"a key that is long enough for any purpose\"\n";
    const MAIL: &str = "[mail]\nhost = \"mail.example.com\"\nsender = \"Queues <q@example.com>\"\n";

    #[test]
    fn a_mail_server_needs_a_sender_and_a_way_to_confirm() {
        let api = "api_url = \"https://queues.example.com\"\n";
        assert_eq!(load(&format!("{KEY}{MAIL}{api}")), Ok(Vec::new()));
        assert_eq!(load(&format!("{MAIL}trusted_recipients = [\"*\"]")), Ok(Vec::new()));
        for (file, missing) in [
            ("[mail]\nhost = \"a\"".to_owned(), "mail.sender must be set"),
            (format!("{MAIL}{api}"), "signed_url.secret_key must be set"),
            (format!("{KEY}{MAIL}"), "mail.api_url must be set"),
            (format!("{KEY}{MAIL}{api}username = \"u\""), "must be set together"),
            (format!("{KEY}{MAIL}{api}password = \"hush\""), "must be set together"),
            (format!("{MAIL}username = \"u\"\npassword = \"hush\"\npassword_file = \"f\""), "are both set"),
            ("[mail]\nhost = \"a b\"".to_owned(), "mail.host is \"a b\""),
            ("[mail]\nsender = \"a\\r\\nBcc: b@c.example\"".to_owned(), "mail.sender is"),
            ("[mail]\nsender = \"Q <q@[127.0.0.1]>\"".to_owned(), "mail.sender is"),
            ("[mail]\nallowed_senders = [\"example.com\"]".to_owned(), "mail.allowed_senders is"),
            ("[mail]\nconfirmation_text = \"hello\"".to_owned(), "mail.confirmation_text is"),
            ("[mail]\nencryption = \"ssl\"".to_owned(), "mail.encryption is"),
        ] {
            let error = load(&file).unwrap_err();
            assert!(error.contains(missing) && !error.contains("hush"), "{file}: {error}");
        }
    }

    #[test]
    fn a_password_without_encryption_causes_a_warning_unless_the_server_is_on_this_machine() {
        let warnings = |host: &str, encryption: &str| {
            load(&format!(
                "[mail]\nhost = \"{host}\"\nsender = \"q@example.com\"\ntrusted_recipients = [\"*\"]\nencryption = \
                 \"{encryption}\"\nusername = \"u\"\npassword = \"hush\""
            ))
            .unwrap()
        };

        let warned = warnings("mail.example.com", "none");
        assert!(warned.len() == 1 && warned[0].starts_with("mail.encryption is \"none\""), "{warned:?}");
        assert!(!warned[0].contains("hush"));
        for (host, encryption) in
            [("localhost", "none"), ("127.0.0.1", "none"), ("[::1]", "none"), ("mail.example.com", "starttls")]
        {
            assert_eq!(warnings(host, encryption), [""; 0]);
        }
    }
}
