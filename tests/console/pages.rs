//! What pages show, and how they are used.

use std::path::Path;

use serde_json::json;

use super::{CLICK, Console, PHONE, PROJECT, claim, create, open_orders, poison, post, read};
use crate::push::LOCAL;
use support::browser::{ENTER, Window};
use support::sukkal::Sukkal;

const PICTURES_SHOWN: [(&str, &str); 4] =
    [("attention", "light"), ("queue", "light"), ("attention", "dark"), ("messages", "phone")];
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/console");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_messages_changes_nothing() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison(&api).await;
    post(&api, "orders", &[json!("first"), json!("second")]).await;
    claim(&api, "orders").await.unwrap();
    let path = "/v2/queues?with_stats=true&detailed=true";
    let before = read(&api, path).await;
    let console = Console::open(&sukkal.url("/console")).await;

    for (route, text) in [
        ("#/queues", "orders"),
        ("#/queues/orders", "Since it was created"),
        ("#/queues/orders/messages", "claimed"),
        ("#/queues/orders/claims", "Release"),
        ("#/queues/failed/dead-letters", "From orders"),
        ("#/queues/orders/settings", "_max_claim_count"),
    ] {
        console.go(route).await;
        console.shows(text).await;
    }

    let after = read(&api, path).await;
    for (one, other) in before["queues"].as_array().unwrap().iter().zip(after["queues"].as_array().unwrap()) {
        assert_eq!(one["stats"]["totals"], other["stats"]["totals"]);
        assert_eq!(one["stats"]["available"], other["stats"]["available"]);
        assert_eq!(one["metadata"], other["metadata"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_tail_shows_new_messages_and_can_be_paused_and_filtered() {
    let (_sukkal, api, console) = open_orders("messages").await;

    // The tail shows the newest messages, whatever the list shows.
    let are_off = "return ['Order', 'Since'].map(label => document.querySelector(`[aria-label=${label}]`).disabled)";
    console.click("Live tail").await;
    console.shows("Connected.").await;
    assert_eq!(console.read(are_off).await, json!([true, true]));
    // The stream begins when the service has answered, and each post is sent until one arrives.
    let seen = async {
        loop {
            post(&api, "orders", &[json!("seen at once")]).await;
            if console.browser.run("return document.body.innerText.includes('seen at once')", json!([])).await == true {
                break;
            }
        }
    };
    seen.await;
    console.click("Pause the tail").await;
    post(&api, "orders", &[json!("while paused")]).await;
    console.shows("Resume (").await;
    let shown = console.browser.text().await;
    assert!(!shown.contains("while paused"), "{shown}");
    console
        .browser
        .wait_for(
            "return [...document.querySelectorAll('button')].some(one => /Resume [(][1-9]/.test(one.textContent))",
            json!([]),
        )
        .await;
    console.browser.wait_for("const go = [...document.querySelectorAll('button')].find(one => one.textContent.startsWith('Resume (')); go?.click(); return Boolean(go)", json!([])).await;
    console.shows("while paused").await;
    console.fill("Filter", "WHILE").await;
    let hides =
        "return !document.body.innerText.includes('seen at once') && document.body.innerText.includes('while paused')";
    console.browser.wait_for(hides, json!([])).await;
    console.click("Stop the live tail").await;
    assert_eq!(console.read(are_off).await, json!([false, false]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_search_move_open_and_help_and_the_address_restores_the_view() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    for name in ["alpha", "beta", "beta-2"] {
        post(&api, name, &[json!(name)]).await;
    }
    let console = Console::open(&sukkal.url("/console")).await;
    console.shows("Oldest waiting messages").await;

    console.browser.press("/").await;
    console.browser.wait_for("return document.activeElement.id === 'search'", json!([])).await;
    console.browser.press("bet").await;
    console
        .browser
        .wait_for(
            "return !document.body.innerText.includes('alpha') && document.querySelectorAll('tbody tr').length === 2",
            json!([]),
        )
        .await;
    assert_eq!(console.read("return location.hash").await, "#/queues?prefix=bet");
    console.read("document.activeElement.blur()").await;
    console.reload().await;
    console.shows("beta-2").await;
    assert_eq!(console.read("return document.querySelectorAll('tbody tr').length").await, 2);
    console.browser.press("?").await;
    console.shows("Next and previous row").await;
    console.click("Close").await;
    console.browser.press("jj").await;
    assert_eq!(console.read("return document.activeElement.textContent").await, "beta-2");
    console.browser.press(ENTER).await;
    console.shows("Since it was created").await;
    assert_eq!(console.read("return location.hash").await, "#/queues/beta-2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enter_in_the_search_opens_a_queue_that_matches() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    for name in ["alpha", "orders"] {
        create(&api, name, &json!({})).await;
    }
    let console = Console::open(&sukkal.url("/console#/queues")).await;
    console.shows("alpha").await;

    // The list of the new text has not come yet.
    let type_and_enter = "const search = document.getElementById('search');
        search.value = arguments[0];
        search.dispatchEvent(new Event('input', {bubbles: true}));
        search.form.requestSubmit();";
    console.browser.run(type_and_enter, json!(["zzz"])).await;
    console.shows("No name begins with “zzz”.").await;
    assert_eq!(console.read("return location.hash").await, "#/queues?prefix=zzz");
    console.browser.run(type_and_enter, json!(["ord"])).await;

    console.browser.wait_for("return location.hash === '#/queues/orders'", json!([])).await;
}

/// Also draws the pictures of docs/console.md, if `SUKKAL_PICTURES` is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_fit_on_a_phone_and_have_a_dark_form() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    poison(&api).await;
    for number in 0..12 {
        post(
            &api,
            "orders",
            &[json!({"order": number, "customer": {"name": "Ada", "since": 1843}, "paid": number % 3 == 0})],
        )
        .await;
    }
    post(&api, "mails", &[json!("Hello, world!")]).await;
    api.post("/v2/queues/mails/pause", &json!({})).send().await.unwrap();
    for (name, window, colors) in [
        ("light", Window { size: (1100, 760), is_dark: false }, "rgb(246, 247, 249)"),
        ("dark", Window { size: (1100, 760), is_dark: true }, "rgb(18, 22, 29)"),
        ("phone", PHONE, "rgb(246, 247, 249)"),
    ] {
        let console = Console::open_in(&sukkal.url("/console"), window).await;
        for (page, route, text) in [
            ("attention", "#/", "Checked 3 queues."),
            ("queue", "#/queues/orders", "Since it was created"),
            ("messages", "#/queues/orders/messages", "customer"),
        ] {
            console.go(route).await;
            console.shows(text).await;
            if (page, name) == ("queue", "light") {
                console.browser.wait_for("return document.querySelectorAll('.chart').length === 2", json!([])).await;
            }
            console.fits().await;
            if std::env::var_os("SUKKAL_PICTURES").is_some() && PICTURES_SHOWN.contains(&(page, name)) {
                std::fs::create_dir_all(PICTURES).unwrap();
                std::fs::write(Path::new(PICTURES).join(format!("{page}-{name}.png")), console.browser.picture().await)
                    .unwrap();
            }
        }
        assert_eq!(console.read("return getComputedStyle(document.body).backgroundColor").await, colors, "{name}");
        assert_eq!(console.browser.run(CLICK, json!(["No such button"])).await, false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_with_the_longest_names_and_texts_fit_on_a_phone() {
    let sukkal = Sukkal::start_with("memory:", &LOCAL);
    let api = sukkal.project(PROJECT);
    let (queue, failed) = ("q".repeat(64), "f".repeat(64));
    let metadata = json!({"_dead_letter_queue": failed, "_max_claim_count": 1, "k".repeat(200): "v".repeat(2000)});
    create(&api, &queue, &metadata).await;
    post(&api, &queue, &[json!("b".repeat(1000))]).await;
    let first = claim(&api, &queue).await.unwrap();
    assert_eq!(api.delete(&first).send().await.unwrap().status(), 204);
    assert_eq!(claim(&api, &queue).await, None);
    post(&api, &queue, &[json!({"k".repeat(1000): "v".repeat(1000)})]).await;
    claim(&api, &queue).await.unwrap();
    let subscriber = format!("http://127.0.0.1/{}", "s".repeat(2000));
    let created = api.post(&format!("/v2/queues/{queue}/subscriptions"), &json!({"subscriber": subscriber}));
    assert_eq!(created.send().await.unwrap().status(), 201);
    let console = Console::open_in(&sukkal.url("/console"), PHONE).await;

    for (part, text, opens) in [
        ("#/", "1 dead letter", ""),
        ("#/queues", &*queue, ""),
        ("#/dead-letters", &*failed, ""),
        (&*format!("#/queues/{queue}"), "Since it was created", ""),
        (&format!("#/queues/{queue}/messages"), "claimed", "td.body button"),
        (&format!("#/queues/{queue}/claims"), "Release", "td button.link"),
        (&format!("#/queues/{queue}/subscriptions"), &subscriber[..40], "td button.link"),
        (&format!("#/queues/{queue}/settings"), "_max_claim_count", "li[data-key=_max_claim_count] button"),
        (&format!("#/queues/{failed}/dead-letters"), "From", "td button.link"),
    ] {
        console.go(part).await;
        console.shows(text).await;
        console.fits().await;
        if !opens.is_empty() {
            let click = "const one = document.querySelector(arguments[0]); one?.click(); return Boolean(one)";
            console.browser.wait_for(click, json!([opens])).await;
            let is_inside = "const open = document.querySelector('dialog[open]'); return open && open.scrollWidth <= open.clientWidth && open.getBoundingClientRect().right <= innerWidth";
            console.browser.wait_for(is_inside, json!([])).await;
            console.click("Close").await;
        }
    }
}

/// A dialog closes after the script that has closed it. It must not restore the address of its
/// page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_left_while_its_dialog_closes_stays_left() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    post(&api, "orders", &[json!("first")]).await;
    let console = Console::open(&sukkal.url("/console#/queues/orders/messages")).await;
    console.click("\"first\"").await;
    console.shows("Time to live").await;

    console.read("document.querySelector('dialog[open] header button').click(); location.hash = '#/topics'").await;

    console.shows("There are no topics.").await;
    assert_eq!(console.read("return location.hash").await, "#/topics");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_in_the_zone_of_the_reader_with_the_exact_time_on_hover() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project(PROJECT);
    let console = Console::open(&sukkal.url("/console#/queues")).await;
    console.browser.set_time_zone("Asia/Kolkata").await;
    post(&api, "orders", &[json!(1)]).await;
    console.reload().await;
    console.go("#/queues/orders/messages").await;

    let exact =
        console.browser.wait_for("return document.querySelector('td time[data-since]')?.title", json!([])).await;
    let off = "return Math.abs(new Date(arguments[0]) - Date.now()) < 60000 && arguments[0].endsWith('Z')";
    assert_eq!(console.browser.run(off, json!([exact])).await, true, "{exact}");
    console.shows(" s ago").await;
    let shown = "const {time} = await import('./console/format.js');
        const shown = time('2026-11-22T12:00:00Z');
        const styles = {dateStyle: 'medium', timeStyle: 'medium', timeZone: 'UTC'};
        const expected = new Intl.DateTimeFormat(undefined, styles).format(new Date('2026-11-22T17:30:00Z'));
        return [shown.textContent === expected || shown.textContent, shown.title]";
    assert_eq!(console.read(shown).await, json!([true, "2026-11-22T12:00:00Z"]));
}
