//! The process is killed repeatedly under load: acknowledged messages are there.
//!
//! `SUKKAL_POWER_CUTS` sets how often.

use std::collections::BTreeSet;

use serde_json::json;
use tokio::task::JoinSet;

use super::super::cuts;
use crate::http::feed;
use support::report;
use support::sukkal::{Api, Sukkal};

const KILLS: usize = 5;
const PRODUCERS: usize = 8;
const POSTS_PER_KILL: usize = 150;
const MESSAGES: &str = "/v2/queues/work/messages";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_survive_a_kill_of_the_process() {
    let kills = cuts::count(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let mut posted = BTreeSet::new();
    for kill in 0..kills {
        let mut sukkal = Sukkal::start(&store);
        let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
        let mut producers = JoinSet::new();
        for number in 0..PRODUCERS {
            let (api, sender) = (sukkal.project("p"), sender.clone());
            producers.spawn(async move { produce(api, format!("{kill}/{number}"), sender).await });
        }
        drop(sender);
        let mut answers = 0;
        while let Some(name) = acknowledged.recv().await {
            posted.insert(name);
            answers += 1;
            if answers == POSTS_PER_KILL {
                sukkal.kill();
            }
        }
        producers.join_all().await;
    }

    let there = feed(&Sukkal::start(&store).project("p"), "work", "&limit=20").await;
    let there = there.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let missing: Vec<_> = posted.difference(&there).collect();
    assert!(missing.is_empty(), "{} of {} are lost: {missing:?}", missing.len(), posted.len());
    assert!(posted.len() >= kills * POSTS_PER_KILL);
    report::checked("embedded_kill", "embedded", kills, format!("{} messages", posted.len()));
}

/// Posts until the server does not respond.
async fn produce(api: Api, name: String, sender: tokio::sync::mpsc::UnboundedSender<String>) {
    for number in 0.. {
        let text = format!("{name}/{number}");
        match api.post(MESSAGES, &json!({ "messages": [{ "body": text }] })).send().await {
            Ok(answer) if answer.status() == 201 => sender.send(text).expect("a receiver exists"),
            Ok(answer) => panic!("{}", answer.status()),
            Err(_) => return,
        }
    }
}
