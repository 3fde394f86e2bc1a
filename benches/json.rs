//! Measures the time to parse a post and to write a page of one message. It compares the code of the
//! service with the simple implementation, which builds a tree of the whole document.
//!
//! Both implementations are measured in turn, on documents of about 1 KB. The figures are
//! microseconds per document in the fastest of many short rounds, which is the round with the least
//! disturbance.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints for a person")]

use std::hint::black_box;
use std::time::Instant;

use serde_json::{Value, json};
use sukkal::api::wire::checksum::Checksums;
use sukkal::api::wire::messages::{self, ListDocument};
use sukkal::api::wire::view::View;
use sukkal::domain::client::Poster;
use sukkal::domain::message::Nonce;
use sukkal::domain::{Message, MessageId, ProjectId, QueueId, Rank};

#[allow(dead_code, reason = "uses a part of the simple implementation of the tests")]
#[path = "../tests/wire/tree.rs"]
mod tree;

const ROUNDS: usize = 400;
const DOCUMENTS_PER_ROUND: u32 = 500;

fn main() {
    println!("| document | tree in | in | ratio | tree out | out | ratio |\n|---|---|---|---|---|---|---|");
    for (name, body) in [("nested", nested()), ("one text", json!("x".repeat(950)))] {
        let post = json!({ "messages": [{ "ttl": 300, "body": body }] }).to_string();
        let message = [message(&body)];
        let queue = queue();
        let view = View { checksums: Checksums::Hidden, origins: false, traces: false };

        let tree_in = || drop(black_box(tree::parse_drafts(black_box(post.as_bytes())).unwrap()));
        let fast_in = || drop(black_box(messages::parse_drafts(black_box(post.as_bytes())).unwrap()));
        let tree_out = || {
            let documents = [tree::document(&queue, black_box(&message[0]), view)];
            black_box(serde_json::to_vec(&json!({ "messages": documents })).unwrap());
        };
        let fast_out = || {
            let mut text = Vec::with_capacity(messages::documents_bytes(&message));
            let messages = messages::documents(&queue, black_box(&message), view);
            serde_json::to_writer(&mut text, &ListDocument { messages, links: None }).unwrap();
            black_box(text);
        };
        let [tree_in, fast_in, tree_out, fast_out] = best([&tree_in, &fast_in, &tree_out, &fast_out]);
        println!(
            "| {name} ({} bytes) | {tree_in:.2} | {fast_in:.2} | {:.2} | {tree_out:.2} | {fast_out:.2} | {:.2} |",
            post.len(),
            tree_in / fast_in,
            tree_out / fast_out,
        );
    }
}

/// Returns the microseconds that each function takes for a document.
fn best<const N: usize>(functions: [&dyn Fn(); N]) -> [f64; N] {
    let mut figures = [f64::MAX; N];
    for _ in 0..ROUNDS {
        for (function, figure) in functions.iter().zip(&mut figures) {
            let start = Instant::now();
            (0..DOCUMENTS_PER_ROUND).for_each(|_| function());
            *figure = figure.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(DOCUMENTS_PER_ROUND));
        }
    }
    figures
}

fn queue() -> QueueId {
    QueueId::new(ProjectId::new("bench").unwrap(), "orders".parse().unwrap()).unwrap()
}

fn message(body: &Value) -> Message {
    let id = MessageId::new(&queue(), Rank::new(1_790_000_000_123_456).unwrap(), Nonce::from_bits(7));
    let body = tree::to_body(body);
    let poster = Poster::from_bytes([0; 8]);
    Message {
        id,
        ttl_s: 300,
        created_s: 0,
        age_s: 4,
        claim: None,
        claim_count: 0,
        state: None,
        origin: None,
        trace: None,
        poster,
        body,
    }
}

/// An event as services send it: texts, integers and floats, short lists, nested objects.
fn nested() -> Value {
    json!({
        "event": "order.created", "id": "8e03978e-40d5-43e8-bc93-6894a57f9324", "version": 3,
        "at": "2026-11-21T20:43:28.123Z", "test": false, "previous": null,
        "customer": {
            "id": 481_516, "name": "Ada Lovelace", "email": "ada@example.com", "tags": ["gold", "eu", "newsletter"],
            "address": {
                "street": "12 St James's Square", "city": "London", "zip": "SW1Y 4JH",
                "geo": { "lat": 51.5074, "lon": -0.1278 },
            },
        },
        "items": [
            { "sku": "A-1001", "title": "Analytical engine, brass", "quantity": 1, "price": 1999.99, "taxes": [0.2, 0.05] },
            { "sku": "B-2040", "title": "Punched cards (box of 500)", "quantity": 12, "price": 7.25, "taxes": [0.2] },
            { "sku": "C-3", "title": "Oil, \"fine\" é", "quantity": 2, "price": 3.5, "taxes": [] },
        ],
        "totals": { "net": 2093.99, "tax": 418.8, "gross": 2512.79, "currency": "GBP" },
        "trace": {
            "host": "web-17", "attempt": 1, "spans": [[1, 2], [3, 4], [5, -6]],
            "flags": { "retry": true, "sampled": false },
        },
    })
}
