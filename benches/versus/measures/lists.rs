//! Lists ten messages after a marker.

use std::io::Write;

use tempfile::NamedTempFile;

use super::{KB, Pace};
use crate::versus::contestants::{Contestant, NATIVE};
use crate::versus::fill;
use crate::versus::native::Native;
use crate::versus::results::Measure;

const MESSAGES: usize = 10_000;
const PAGES: usize = 200;

pub(super) async fn after_a_marker(pace: Pace) -> Measure {
    let contestants = [Contestant::sukkal_over_redis(), Contestant::sukkal_embedded(), Contestant::zaqar().await];
    let mut prepared = Vec::new();
    for contestant in &contestants {
        contestant.reset(1).await;
        contestant.fill(MESSAGES, KB).await;
        let mut markers = NamedTempFile::new().unwrap();
        writeln!(markers, "{}", fill::markers(&contestant.api(), "q-0", PAGES).await.join("\n")).unwrap();
        prepared.push((contestant, markers));
    }

    let title = "GET of ten messages of 1 KB after a marker, 64 connections";
    let native = Native::start().await;
    let mut measure = Measure::new("list", title);
    for _ in 0..pace.rounds {
        for (contestant, markers) in &prepared {
            let file = markers.path().to_str().unwrap().to_owned();
            let [warmup, load] = pace.loads("list", &[file], 64);
            contestant.run(&warmup);
            measure.add(contestant.name, contestant.run(&load));
        }
        measure.add(NATIVE, native.list(KB, pace.seconds).await);
    }
    measure
}
