//! Tokens of an embedded store after power cuts.

use std::collections::HashSet;

use sukkal_domain::{NewToken, ProjectId, Token, TokenGrant, TokenId};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::{TokenCreation, TokenStore, TokensMax};

use super::super::cuts;
use super::assert_consistent;
use super::disk::Disk;
use support::random::{self, Random};
use support::report;

const CUTS: usize = 10;
/// Largest number of changes between two cuts.
const CHANGES_MAX: u64 = 30;
const MAX: TokensMax = TokensMax { total: 10_000, per_project: 10_000 };

fn new_token(random: &mut Random) -> NewToken {
    let token = Token::random();
    let project = if random.one_in(2) { ProjectId::new("p") } else { None };
    let grant = TokenGrant { name: "n".to_owned(), project, roles: vec!["worker".to_owned()] };
    let ttl_s = random.one_in(2).then_some(86_400);
    NewToken { id: token.id(), grant, hash: token.hash(), ttl_s }
}

async fn ids(store: &EmbeddedStore) -> HashSet<TokenId> {
    store.list_tokens(None, None, 10_000).await.unwrap().into_iter().map(|token| token.id).collect()
}

#[tokio::test]
async fn acknowledged_tokens_and_deletions_survive_power_cuts() {
    let seed = random::seed();
    let (mut random, disk, cuts) = (Random::new(seed, 5, 0), Disk::new(), cuts::count(CUTS));
    let mut expected: HashSet<TokenId> = HashSet::new();

    for _ in 0..=cuts {
        disk.power_on();
        let store = disk.open(Fsync::Group);
        assert_consistent(&store).await;
        assert_eq!(ids(&store).await, expected);

        for _ in 0..random.within(1..=CHANGES_MAX) {
            let deleted = expected.iter().next().copied().filter(|_| random.one_in(3));
            if let Some(id) = deleted {
                store.delete_token(id).await.unwrap();
                expected.remove(&id);
            } else {
                let new = new_token(&mut random);
                assert!(matches!(store.create_token(&new, MAX).await, Ok(TokenCreation::Created(_))));
                expected.insert(new.id);
            }
        }
        disk.cut(&mut random);
    }
    assert!(!expected.is_empty(), "no token is left");
    report::checked("embedded_tokens", "embedded", cuts, format!("{} tokens are left, seed {seed}", expected.len()));
}
