//! Tokens: create, get, list and delete them, their expiry, and how many there may be.
//!
//! Tokens do not belong to queues, so lists of all tokens include those of other cases.

use std::time::Duration;

use sukkal_domain::{NewToken, ProjectId, Token, TokenGrant, TokenId, TokenRecord};
use sukkal_storage::{TokenCreation, TokensMax};

use crate::conformance::support::subject::{Subject, fresh_project};
use support::waiting::{until, until_some};

const OK: &str = "the store answers";
const MANY: TokensMax = TokensMax { total: 1_000_000, per_project: 1_000_000 };
/// The shortest life of a token.
const SHORT_S: u64 = 1;

fn token(project: Option<&ProjectId>, ttl_s: Option<u64>) -> NewToken {
    let token = Token::random();
    let roles = vec!["worker".to_owned(), "reader".to_owned()];
    let grant = TokenGrant { name: format!("töken of {project:?}"), project: project.cloned(), roles };
    NewToken { id: token.id(), grant, hash: token.hash(), ttl_s }
}

async fn create(subject: &Subject, new: &NewToken) -> TokenRecord {
    match subject.store().create_token(new, MANY).await.expect(OK) {
        TokenCreation::Created(record) => record,
        other => panic!("{other:?}"),
    }
}

/// Creates tokens, and returns them in the order of their ids.
async fn create_many(subject: &Subject, project: Option<&ProjectId>, count: usize) -> Vec<TokenRecord> {
    let mut created = Vec::new();
    for _ in 0..count {
        created.push(create(subject, &token(project, None)).await);
    }
    created.sort_by_key(|token| token.id);
    created
}

async fn get(subject: &Subject, id: TokenId) -> Option<TokenRecord> {
    subject.store().get_token(id).await.expect(OK)
}

async fn delete(subject: &Subject, id: TokenId) {
    subject.store().delete_token(id).await.expect(OK);
}

/// Returns all tokens of a project, or of all, page by page.
async fn list(subject: &Subject, project: Option<&ProjectId>, limit: usize) -> Vec<TokenRecord> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = subject.store().list_tokens(project, after, limit).await.expect(OK);
        assert!(page.len() <= limit);
        let is_end = page.len() < limit;
        after = page.last().map(|token| token.id);
        found.extend(page);
        if is_end {
            return found;
        }
    }
}

pub(in crate::conformance) async fn a_created_token_is_returned_as_it_is(subject: &Subject) {
    for (project, ttl_s) in [(Some(subject.project()), Some(600)), (None, None)] {
        let new = token(project, ttl_s);

        let created = create(subject, &new).await;

        assert_eq!((created.id, &created.grant, created.hash), (new.id, &new.grant, new.hash));
        let life_s = created.expires_s.map(|expires_s| expires_s - created.created_s);
        assert!(life_s.is_none_or(|life_s| (600..=601).contains(&life_s)) && life_s.is_some() == ttl_s.is_some());
        let got = get(subject, new.id).await.expect("it exists");
        assert!(got.life_left <= ttl_s.map(Duration::from_secs) && got.life_left.is_some() == ttl_s.is_some());
        assert_eq!(TokenRecord { life_left: None, ..got }, TokenRecord { life_left: None, ..created });
        delete(subject, new.id).await;
    }
    assert_eq!(get(subject, TokenId::random()).await, None);
}

pub(in crate::conformance) async fn a_repeated_creation_has_no_effect(subject: &Subject) {
    let new = token(Some(subject.project()), None);
    let created = create(subject, &new).await;

    let repeated = create(subject, &new).await;

    assert_eq!(repeated, created);
    assert_eq!(list(subject, Some(subject.project()), 10).await, [created]);
}

pub(in crate::conformance) async fn tokens_of_a_project_are_listed_in_pages_in_the_order_of_their_ids(
    subject: &Subject,
) {
    // Ids that begin with one another must not be confused.
    let own = subject.project();
    let others = ["", "\0", "é", "/"].map(|end| ProjectId::new(&format!("{own}x{end}")).expect("it is not empty"));
    let expected = create_many(subject, Some(own), 7).await;
    for other in &others {
        create_many(subject, Some(other), 2).await;
    }

    for limit in [1, 3, 7, 100] {
        assert_eq!(list(subject, Some(own), limit).await, expected, "{limit}");
    }
    for other in &others {
        let found = list(subject, Some(other), 100).await;
        assert!(found.len() == 2 && found.iter().all(|token| token.grant.project.as_ref() == Some(other)));
    }
    assert_eq!(list(subject, Some(&fresh_project()), 100).await, []);
}

pub(in crate::conformance) async fn a_list_of_all_tokens_has_those_of_every_project(subject: &Subject) {
    let mut expected = create_many(subject, Some(subject.project()), 3).await;
    expected.extend(create_many(subject, Some(&fresh_project()), 3).await);
    let for_all = create_many(subject, None, 3).await;
    expected.extend(for_all.clone());
    expected.sort_by_key(|token| token.id);

    for limit in [2, 1_000] {
        let listed = list(subject, None, limit).await;
        assert!(listed.windows(2).all(|pair| pair[0].id < pair[1].id));
        let own: Vec<_> = listed.into_iter().filter(|token| expected.contains(token)).collect();
        assert_eq!(own, expected, "{limit}");
    }
    for token in for_all {
        delete(subject, token.id).await;
    }
}

pub(in crate::conformance) async fn a_deleted_token_does_not_exist(subject: &Subject) {
    let project = Some(subject.project());
    let [gone, kept] = &create_many(subject, project, 2).await[..] else { panic!("there are two") };

    for _ in 0..2 {
        delete(subject, gone.id).await;
    }
    delete(subject, TokenId::random()).await;

    assert_eq!((get(subject, gone.id).await, get(subject, kept.id).await.as_ref()), (None, Some(kept)));
    assert_eq!(list(subject, project, 10).await, std::slice::from_ref(kept));
    assert!(!list(subject, None, 100).await.contains(gone));
}

pub(in crate::conformance) async fn an_expired_token_does_not_exist_and_does_not_count(subject: &Subject) {
    let project = Some(subject.project());
    let one = TokensMax { per_project: 1, ..MANY };
    let next = token(project, Some(600));
    let short = until_some("a token is created before another one expires", async || {
        let short = token(project, Some(SHORT_S));
        create(subject, &short).await;
        match subject.store().create_token(&next, one).await.expect(OK) {
            TokenCreation::TooManyOfProject => return Some(short),
            TokenCreation::Created(_) => delete(subject, next.id).await,
            TokenCreation::TooMany => panic!("there are too many tokens"),
        }
        None
    })
    .await;

    // The clock of a store can be moved for queues only.
    until("the token expires", async || get(subject, short.id).await.is_none()).await;

    assert_eq!(list(subject, project, 10).await, []);
    let created = subject.store().create_token(&next, one).await.expect(OK);
    assert!(matches!(&created, TokenCreation::Created(record) if record.id == next.id), "{created:?}");
    delete(subject, short.id).await;
    assert_eq!(list(subject, project, 10).await.len(), 1);
}

pub(in crate::conformance) async fn there_are_at_most_as_many_tokens_as_allowed(subject: &Subject) {
    let (project, other) = (subject.project(), fresh_project());
    let two = TokensMax { per_project: 2, ..MANY };
    let kept = create_many(subject, Some(project), 2).await;
    let store = subject.store();

    let third = token(Some(project), None);
    assert_eq!(store.create_token(&third, two).await.expect(OK), TokenCreation::TooManyOfProject);
    assert_eq!(get(subject, third.id).await, None);
    for allowed in [token(Some(&other), None), token(None, None)] {
        assert!(matches!(store.create_token(&allowed, two).await.expect(OK), TokenCreation::Created(_)));
        delete(subject, allowed.id).await;
    }
    let none = TokensMax { total: 0, ..MANY };
    assert_eq!(store.create_token(&token(None, None), none).await.expect(OK), TokenCreation::TooMany);

    delete(subject, kept[0].id).await;
    assert!(matches!(store.create_token(&third, two).await.expect(OK), TokenCreation::Created(_)));
}
