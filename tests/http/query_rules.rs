//! Fact sheet 1.6: query parameters.
//!
//! | row | test |
//! |---|---|
//! | blank and unknown parameters | `blank_and_unknown_parameters_are_ignored` |
//! | repeated and comma-separated values | `repeated_and_comma_separated_values_form_one_list`, `the_last_of_several_values_is_used` |
//! | integers, else 400 | `an_integer_parameter_must_be_an_integer` |
//! | booleans, else 400 | `booleans_accept_a_fixed_set_of_words` |
//! | `limit` out of range 400 | `a_limit_out_of_range_is_refused` |

use serde_json::json;

use super::{INVALID_PARAMETER, INVALID_REQUEST, answered, new_project, pick, refused};

#[tokio::test]
async fn blank_and_unknown_parameters_are_ignored() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1), json!(2)]).await;

    let page = answered(api.get("/v2/queues/q/messages?limit=&echo=true&marker=&ids=&color=red&x"), 200).await.json();

    assert_eq!(pick(&page["messages"], "body"), [1, 2]);
    let href = format!("/v2/queues/q/messages?echo=true&include_delayed=true&marker={}", ids[1]);
    assert_eq!(page["links"][0]["href"], href);
}

#[tokio::test]
async fn repeated_and_comma_separated_values_form_one_list() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1), json!(2), json!(3)]).await;
    let (a, b, c) = (&ids[0], &ids[1], &ids[2]);

    for query in [format!("ids={a},{b},{c}"), format!("ids={a}&ids={b}&ids={c}"), format!("ids={a},,{b}&x=1&ids=,{c},")]
    {
        let found = answered(api.get(&format!("/v2/queues/q/messages?{query}")), 200).await;

        assert_eq!(pick(&found.json()["messages"], "body"), [1, 2, 3], "{query}");
    }
}

#[tokio::test]
async fn the_last_of_several_values_is_used() {
    let api = new_project();
    api.post_bodies("q", &[json!(1), json!(2), json!(3)]).await;

    for query in ["limit=1&limit=2&echo=false&echo=true", "limit=1,2&echo=false,true", "limit=x,2&echo=maybe,yes"] {
        let page = answered(api.get(&format!("/v2/queues/q/messages?{query}")), 200).await;

        assert_eq!(pick(&page.json()["messages"], "body"), [1, 2], "{query}");
    }
}

/// Rows 4.1-15, 6.2-10.
#[tokio::test]
async fn an_integer_parameter_must_be_an_integer() {
    let api = new_project();

    for path in ["/v2/queues", "/v2/queues/q/messages"] {
        for limit in ["x", "1.0", "0x1", "1e1", "true", "%00"] {
            let description = refused(api.get(&format!("{path}?limit={limit}")), 400, INVALID_PARAMETER).await;

            assert_eq!(description, "The \"limit\" parameter is invalid. The value must be an integer.");
        }
        for limit in ["5", "%2B5", "+5", "005"] {
            answered(api.get(&format!("{path}?limit={limit}")), 200).await;
        }
    }
}

/// Rows 4.1-15, 6.2-10.
#[tokio::test]
async fn booleans_accept_a_fixed_set_of_words() {
    let api = new_project();

    for (path, name) in [
        ("/v2/queues", "detailed"),
        ("/v2/queues", "with_count"),
        ("/v2/queues/q/messages", "echo"),
        ("/v2/queues/q/messages", "include_claimed"),
        ("/v2/queues/q/messages", "include_delayed"),
    ] {
        for word in ["true", "True", "t", "yes", "y", "1", "on", "false", "False", "f", "no", "n", "0", "off", ""] {
            answered(api.get(&format!("{path}?{name}={word}")), 200).await;
        }
        for word in ["TRUE", "FALSE", "None", "2", "maybe", "%F0%9F%98%80"] {
            let description = refused(api.get(&format!("{path}?{name}={word}")), 400, INVALID_PARAMETER).await;

            let wanted = format!("The \"{name}\" parameter is invalid. The value must be \"true\" or \"false\".");
            assert_eq!(description, wanted);
        }
    }
}

/// Rows 4.1-2, 6.2-2, 6.2-10.
#[tokio::test]
async fn a_limit_out_of_range_is_refused() {
    let api = new_project();

    for path in ["/v2/queues", "/v2/queues/q/messages"] {
        for limit in ["0", "-1", "21", "4294967297", "-9223372036854775808"] {
            refused(api.get(&format!("{path}?limit={limit}")), 400, INVALID_REQUEST).await;
        }
        for limit in ["1", "20"] {
            answered(api.get(&format!("{path}?limit={limit}")), 200).await;
        }
    }
}

/// Many clients encode the commas of a list.
#[tokio::test]
async fn ids_are_a_list_however_its_commas_are_written() {
    let api = new_project();
    let ids = api.post_bodies("q", &[json!(1), json!(2)]).await;

    for separator in [",", "%2C", "%2c"] {
        let path = format!("/v2/queues/q/messages?ids={}", ids.join(separator));
        assert_eq!(answered(api.get(&path), 200).await.json()["messages"].as_array().unwrap().len(), 2);
    }
    answered(api.delete(&format!("/v2/queues/q/messages?ids={}", ids.join("%2C"))), 204).await;
    assert_eq!(answered(api.get("/v2/queues/q/stats"), 200).await.json()["messages"]["total"], 0);
}
