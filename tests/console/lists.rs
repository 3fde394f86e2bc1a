//! Lists: their pages, their order, the keys that move in them, and the figures that they show.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Console, PHONE, PROJECT, claim, create, post};
use crate::http::answered;
use crate::push::LOCAL;
use support::browser::{ENTER, ESCAPE};
use support::sukkal::{Api, Sukkal};

/// The first cells of the rows.
const ROWS: &str = "return [...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)";
const ROWS_ARE: &str = "return JSON.stringify([...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)) === JSON.stringify(arguments[0])";
/// The value of a field for a time, in the zone of the browser.
const LOCAL_TIME: &str = "const date = new Date(arguments[0]); return new Date(date - 60000 * date.getTimezoneOffset()).toISOString().slice(0, 19)";

impl Console {
    /// Waits for a page with this number of rows, and returns their first cells.
    async fn page_of(&self, count: usize) -> Value {
        let rows = format!("const rows = (() => {{ {ROWS} }})(); return rows.length === arguments[0] ? rows : null");
        self.browser.wait_for(&rows, json!([count])).await
    }

    /// Waits until the first cells of all rows are these numbers.
    async fn lists(&self, numbers: impl Iterator<Item = i32>) {
        let rows: Vec<String> = numbers.map(|number| number.to_string()).collect();
        self.browser.wait_for(ROWS_ARE, json!([rows])).await;
    }
}

async fn post_numbers(api: &Api, numbers: std::ops::Range<i32>) {
    let numbers: Vec<Value> = numbers.map(|number| json!(number)).collect();
    for chunk in numbers.chunks(super::POSTED_MAX) {
        post(api, "orders", chunk).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_have_pages_in_both_orders_and_from_a_time_on() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    post_numbers(&api, 0..45).await;
    // The field for a time has whole seconds, so this one begins after these messages.
    let second = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 1;
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;

    console.lists((25..45).rev()).await;
    console.click("Next").await;
    console.lists((5..25).rev()).await;
    console.reload().await;
    console.lists((5..25).rev()).await;
    console.click("Next").await;
    console.lists((0..5).rev()).await;
    console.click("Next").await;
    console.shows("This is the end of the list.").await;
    console.click("Back").await;
    console.lists((0..5).rev()).await;
    console.click("Back").await;
    console.lists((5..25).rev()).await;
    console.fill("Order", "asc").await;
    console.lists(0..20).await;
    console.click("Next").await;
    console.lists(20..40).await;
    console.click("Back").await;
    console.lists(0..20).await;

    // It has often begun meanwhile.
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    sleep(begin.duration_since(SystemTime::now()).unwrap_or_default()).await;
    post_numbers(&api, 45..48).await;
    let since = console.browser.run(LOCAL_TIME, json!([second * 1000])).await;
    console.fill("Since", since.as_str().unwrap()).await;
    console.lists(45..48).await;
    console.reload().await;
    console.lists(45..48).await;
    console.fill("Since", "").await;
    console.lists(0..20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn back_skips_no_page() {
    let sukkal = Sukkal::start("memory:");
    post_numbers(&sukkal.project(PROJECT), 0..65).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;
    let open_third_page = async || {
        console.lists((45..65).rev()).await;
        console.click("Next").await;
        console.lists((25..45).rev()).await;
        console.click("Next").await;
        console.lists((5..25).rev()).await;
    };

    open_third_page().await;
    console.reload().await;
    console.lists((5..25).rev()).await;
    let address = console.read("return location.hash").await;
    console.go("#/queues").await;
    console.shows("Queues 1").await;
    console.read("history.back()").await;
    console.lists((5..25).rev()).await;
    let back = "const back = [...document.querySelectorAll('button')].find(one => one.textContent === 'Back');";
    console.read(&format!("{back} back.click(); back.click();")).await;
    console.lists((25..45).rev()).await;
    console.click("Back").await;
    open_third_page().await;

    // The pages before that of a saved address are not known.
    console.go("#/queues").await;
    console.shows("Queues 1").await;
    console.go(address.as_str().unwrap()).await;
    console.lists((5..25).rev()).await;
    console.click("First page").await;
    console.lists((45..65).rev()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_could_not_be_read_can_be_tried_again() {
    let sukkal = Sukkal::start("memory:");
    post_numbers(&sukkal.project(PROJECT), 0..25).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;
    console.lists((5..25).rev()).await;

    let lose = "const send = fetch; window.fetch = async () => { window.fetch = send; throw new TypeError('lost'); }";
    console.read(lose).await;
    console.click("Next").await;
    console.shows("lost").await;
    console.click("Next").await;

    console.lists((0..5).rev()).await;
    console.click("Back").await;
    console.lists((5..25).rev()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_have_pages_and_figures_are_exact() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    for number in 10..35 {
        create(&api, &number.to_string(), &json!({})).await;
    }
    let console = Console::open(&sukkal.url("/console#/queues")).await;

    console.lists(10..30).await;
    console.shows("Queues 25").await;
    console.click("Next").await;
    console.lists(30..35).await;
    console.reload().await;
    console.lists(30..35).await;
    console.click("Back").await;
    console.lists(10..30).await;
    console.click("Next").await;
    console.lists(30..35).await;
    console.fill("Beginning of the name", "1").await;
    console.lists(10..20).await;

    let format = "const {count, duration, number} = await import('./console/format.js');
        const {parse} = await import('./console/json.js');
        const digits = text => text.replaceAll(/[^0-9]/g, '');
        return [...arguments[0].map(text => digits(number(parse(text)))), number(null), duration(90061), count(1, 'queue')]";
    let texts = json!([["9007199254740991", "9007199254740993", "18446744073709551615", "123456789012345678901"]]);
    let shown = console.browser.run(format, texts.clone()).await;
    let expected =
        [texts[0].as_array().unwrap().clone(), vec![json!("–"), json!("1 d 1 h"), json!("1 queue")]].concat();
    assert_eq!(shown, Value::Array(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_restores_a_page_of_claims_and_of_subscriptions() {
    let sukkal = Sukkal::start_with("memory:", &LOCAL);
    let api = sukkal.project(PROJECT);
    for number in 0..25 {
        post(&api, "orders", &[json!(number)]).await;
        claim(&api, "orders").await.unwrap();
        // The service would look for the address of a name, which may take seconds.
        let subscriber = json!({"subscriber": format!("http://127.0.0.1/{number}")});
        answered(api.post("/v2/queues/orders/subscriptions", &subscriber), 201).await;
    }
    let console = Console::open(&sukkal.url("/console#/queues")).await;

    for part in ["claims", "subscriptions"] {
        console.go(&format!("#/queues/orders/{part}")).await;
        let first = console.page_of(20).await;
        console.click("Next").await;
        let second = console.page_of(5).await;
        console.reload().await;
        assert_eq!(console.page_of(5).await, second);
        console.click("Back").await;
        assert_eq!(console.page_of(20).await, first);
        let seen = first.as_array().unwrap().iter().chain(second.as_array().unwrap());
        assert_eq!(seen.collect::<HashSet<_>>().len(), 25, "{part}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_draws_how_the_messages_of_a_queue_change() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    post_numbers(&api, 0..10).await;
    let console = Console::open(&sukkal.url("/console#/queues")).await;
    console.shows("orders\t10\t").await;

    post_numbers(&api, 10..30).await;
    // The line ends at its highest point, and rises from a third of it.
    let line = "const line = document.querySelector('.spark path').getAttribute('d');
        return /^M0[.]0 13[.]0L/.test(line) && / 1[.]0$/.test(line)";
    console.browser.wait_for(line, json!([])).await;
    console.shows("/s").await;
    let posted = console.read("return document.querySelector('tbody tr').cells[5].textContent").await;
    assert_ne!(posted, "0/s");

    let speed = "const {speed} = await import('./console/queues.js');
        const points = [[0, 0], [1000, 50], [2000, 50], [4000, 70]].map(([at, posted]) => ({at, posted}));
        return [speed(points, 'posted'), speed(points, 'posted', 1), speed(points, 'posted', 2), speed(points.slice(3), 'posted')]";
    assert_eq!(console.read(speed).await, json!([17.5, 10, 20.0 / 3.0, null]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_move_and_open_in_lists_of_messages_and_claims() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    let mut held = Vec::new();
    for number in 0..3 {
        post(&api, "orders", &[json!({ "number": number })]).await;
        held.push(claim(&api, "orders").await.unwrap());
    }
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;
    console.shows(r#"{"number":0}"#).await;

    console.browser.press("jjjk").await;
    console.browser.press(ENTER).await;
    console.shows("Time to live").await;
    assert_eq!(console.text_of("dialog .json").await.matches("number: 1").count(), 1);
    // The list behind the dialog does not move.
    console.browser.press("k").await;
    console.browser.press(ESCAPE).await;
    console.hides("Time to live").await;
    assert_eq!(console.read("return document.activeElement.textContent").await, r#"{"number":1}"#);
    console.go("#/queues/orders/claims").await;
    console.shows("Release").await;
    let ids = console.read(ROWS).await;
    console.browser.press("kk").await;
    // The focus stays in its row when the list is drawn again.
    let again = "window.drawn ??= document.querySelector('tbody time').dataset.until; return document.querySelector('tbody time[data-until]').dataset.until !== window.drawn";
    console.browser.wait_for(again, json!([])).await;
    console.browser.press(ENTER).await;
    console.shows(&format!("Claim {}", ids[1].as_str().unwrap())).await;
    console.shows("Its time to live is 5 min.").await;
    assert_eq!(held.len(), ids.as_array().unwrap().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_and_tenants_of_a_fair_queue_are_drawn_as_bars() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    create(&api, "fair", &json!({"_shards": 2})).await;
    let of = |tenant: &str, number: i32| json!({"tenant": tenant, "body": number});
    let messages: Vec<Value> = (0..9).map(|number| of("acme", number)).chain([of("<b>", 9)]).collect();
    let posted = api.post("/v2/queues/fair/messages", &json!({ "messages": messages })).send().await.unwrap();
    assert_eq!(posted.status(), 201);
    let console = Console::open(&sukkal.url("/console#/queues/fair")).await;

    console.shows("Tenants by posted messages").await;

    let bars = "return [...document.querySelectorAll('.bars li')].map(bar => [bar.querySelector('bdi').textContent,
        Number(bar.querySelector('rect').getAttribute('width')), bar.querySelector('span').textContent])";
    let bars = console.read(bars).await;
    let bars = bars.as_array().unwrap();
    let in_shards: i64 =
        bars[..2].iter().map(|bar| bar[2].as_str().unwrap().split(',').next().unwrap().parse::<i64>().unwrap()).sum();
    assert_eq!((in_shards, &bars[0][0], &bars[1][0]), (10, &json!("Shard 0"), &json!("Shard 1")));
    assert_eq!(bars[2..], [json!(["acme", 100, "90.0 %"]), json!(["<b>", 11.1, "10.0 %"])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_a_thousand_tenants_shows_those_with_the_most_messages() {
    const TENANTS: usize = 1000;
    /// See `maxItems` in openapi.yaml.
    const SHOWN: usize = 32;
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    create(&api, "fair", &json!({"_shards": 64})).await;
    let name = |number: usize| format!("{number}{}", "x".repeat(124));
    let all: Vec<Value> = (0..TENANTS).map(|number| json!({"tenant": name(number), "body": number})).collect();
    let mut of_one: Vec<Value> = (0..200).map(|number| json!({"tenant": "busy", "body": number})).collect();
    of_one.extend(all);
    for chunk in of_one.chunks(super::POSTED_MAX) {
        answered(api.post("/v2/queues/fair/messages", &json!({ "messages": chunk })), 201).await;
    }
    let console = Console::open_in(&sukkal.url("/console#/queues/fair"), PHONE).await;

    console.shows("Tenants by posted messages").await;

    let names = "const list = [...document.querySelectorAll('.bars')].at(-1);
        return [...list.querySelectorAll('bdi')].map(name => name.textContent)";
    let names = console.read(names).await;
    let names = names.as_array().unwrap();
    assert_eq!((&names[0], names.len()), (&json!("busy"), SHOWN));
    console.fits().await;
}
