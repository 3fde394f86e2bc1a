//! The systemd unit is valid and hardened. `faults::service_manager` tests the notifications.

use std::fs;

use super::{read, succeed};

const UNIT: &str = "ops/sukkal.service";
/// Maximum exposure of the unit, from 0 (none) to 100.
const EXPOSURE_MAX: &str = "15";

#[test]
fn systemd_accepts_the_unit_and_rates_it_as_hardened() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("sukkal.service");
    // systemd checks that the program exists.
    let binary = support::sukkal::binary().to_str().unwrap();
    fs::write(&unit, read(UNIT).replace("/usr/local/bin/sukkal", binary)).unwrap();
    let unit = unit.to_str().unwrap();

    let said = succeed("systemd-analyze", &["verify", unit]);
    assert_eq!(said.trim(), "");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    succeed("systemd-analyze", &["security", "--offline=true", "--no-pager", &threshold, unit]);
}

#[test]
fn the_unit_and_the_program_agree() {
    let (unit, options) = (read(UNIT), read("config/default.toml"));
    let number = |text: &str, key: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key} is missing"));
        line.trim_start_matches(['=', ' ']).parse().unwrap()
    };

    assert!(unit.contains("Type=notify\n"));
    assert!(number(&unit, "TimeoutStopSec") > number(&options, "drain_timeout"));
    // src/descriptors.rs reserves some for the store.
    assert!(number(&unit, "LimitNOFILE") >= number(&options, "max_connections") + 256);
    assert!(unit.contains("RestartPreventExitStatus=2\n"), "a wrong option ends the program with 2");
}
