//! The reference of the API in the browser.

use std::process::Command;

use serde_json::{Value, json};

use super::read;
use support::browser::Browser;
use support::sukkal::Sukkal;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_an_operation_is_found_in_the_reference_and_works() {
    let sukkal = Sukkal::start("memory:");
    let browser = Browser::start().await;
    browser.open(&sukkal.url("/docs")).await;

    let open = "const group = [...document.querySelectorAll('.contents details')].find(one => one.querySelector('summary').textContent === 'messages');
        group.querySelector('summary').click();
        group.querySelector('a[href=\"#postMessages\"]').click();
        return location.hash";
    assert_eq!(browser.run(open, json!([])).await, "#postMessages");
    let article = "const article = document.querySelector('article:target');
        const box = article.getBoundingClientRect();
        return [box.top < innerHeight && box.bottom > 0, [...article.querySelectorAll('h4')].find(one => one.textContent === 'Example').nextElementSibling.textContent,
            article.querySelector('details summary').textContent]";
    let shown = browser.run(article, json!([])).await;
    assert_eq!((&shown[0], &shown[2].as_str().unwrap()[..3]), (&json!(true), "201"));

    let command =
        shown[1].as_str().unwrap().replace("127.0.0.1:8888", sukkal.address()).replace("{queue_name}", "orders");
    let output = Command::new("sh").args(["-c", &command.replacen("curl", "curl -s", 1)]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listed = read(&sukkal.project("demo"), "/v2/queues/orders/messages?echo=true").await;
    assert_eq!(answer["resources"].as_array().unwrap().len(), listed["messages"].as_array().unwrap().len());
    let elsewhere = "return performance.getEntriesByType('resource').map(one => one.name).filter(name => !name.startsWith(location.origin))";
    assert_eq!(browser.run(elsewhere, json!([])).await, json!([]));
}
