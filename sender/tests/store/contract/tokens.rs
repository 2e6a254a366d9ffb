use hookproof_sender::engine::StoreTime;
use hookproof_sender::store::token::{Scope, StoredToken, TOKENS_MAX};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, WIDE, World};

pub(super) fn token(name: &str) -> StoredToken {
    StoredToken {
        name: name.into(),
        digest: std::array::from_fn(|place| u8::try_from(place * 8).unwrap()),
        scope: Scope::Operate,
        created: StoreTime(7),
        by: "ann".into(),
        expires: None,
        subscribers: None,
    }
}

fn create<B: Backend>(world: &mut World<B>, token: StoredToken) -> Reply {
    world.one(Command::CreateToken(token))
}

fn revoke<B: Backend>(world: &mut World<B>, name: &str) -> Reply {
    world.one(Command::RevokeToken(name.into()))
}

fn names<B: Backend>(world: &World<B>) -> Vec<String> {
    world.reader.tokens().unwrap().iter().map(|token| token.name.to_string()).collect()
}

pub(super) fn a_token_reads_as_it_was_written_after_a_power_cut<B: Backend>() {
    let mut world = World::<B>::new();
    assert_eq!(world.reader.tokens().unwrap(), []);
    let expiring = StoredToken { scope: Scope::Emit, expires: Some(StoreTime(9)), ..token("b ä") };
    let names = vec!["shop ä".to_owned(), "acme-*".to_owned()];
    let restricted = StoredToken { subscribers: Some(names.try_into().unwrap()), ..token("c") };
    for written in [&expiring, &restricted, &token("a")] {
        assert_eq!(create(&mut world, written.clone()), Reply::Done);
    }
    let world = World::over(world.backend.after_power_cut());
    assert_eq!(world.reader.tokens().unwrap(), [token("a"), expiring, restricted], "by name");
}

pub(super) fn a_name_is_taken_until_its_token_is_revoked<B: Backend>() {
    let mut world = World::<B>::new();
    create(&mut world, token("a"));
    let twin = StoredToken { digest: [1; 32], ..token("a") };
    assert_eq!(create(&mut world, twin.clone()), Reply::Refused(Refusal::TokenTaken("a".into())));
    assert_eq!(world.reader.tokens().unwrap(), [token("a")], "nothing has changed");
    create(&mut world, token("b"));
    assert_eq!(revoke(&mut world, "a"), Reply::Done);
    assert_eq!(names(&world), ["b"]);
    assert_eq!(revoke(&mut world, "a"), Reply::Refused(Refusal::UnknownToken("a".into())));
    assert_eq!(create(&mut world, twin), Reply::Done);
}

pub(super) fn tokens_are_bounded_and_expired_ones_count<B: Backend>() {
    let mut world = World::<B>::new();
    let expired = |number| {
        Command::CreateToken(StoredToken { expires: Some(StoreTime(1)), ..token(&format!("{number}")) })
    };
    let replies = world.all(&(0..=TOKENS_MAX).map(expired).collect::<Vec<_>>());
    let (last, rest) = replies.split_last().unwrap();
    assert!(rest.iter().all(|reply| *reply == Reply::Done), "{rest:?}");
    assert_eq!(*last, Reply::Refused(Refusal::TooManyTokens));
    assert_eq!(revoke(&mut world, "7"), Reply::Done);
    assert_eq!(create(&mut world, token("another")), Reply::Done);
}

pub(super) fn a_change_of_a_token_is_noticed_and_holds_up_no_event<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let other = world.backend.reader();
    let roster = || other.glance().unwrap().roster;
    let (before, event) = (roster(), world.event(&[lane]));
    create(&mut world, token("a"));
    let made = roster();
    assert!(made > before, "{made}");
    create(&mut world, token("a"));
    assert_eq!(roster(), made, "a refusal changes nothing");
    revoke(&mut world, "a");
    assert!(roster() > made);
    world.try_emit(event).unwrap();
}

pub(super) fn a_row_that_is_no_token_hides_no_other<B: Backend>() {
    let mut world = World::<B>::new();
    for name in ["a", "b", "c"] {
        create(&mut world, token(name));
    }
    for (name, damage) in [("a", "scope = 99"), ("b", "subscribers = 'all'")] {
        world.backend.damage_token(name, damage);
    }
    let found = world.reader.tokens().unwrap();
    assert_eq!(found[2], token("c"));
    for (found, name) in found.iter().zip(["a", "b"]) {
        // So the API goes on demanding a token.
        assert_eq!((&*found.name, found.is_expired(StoreTime(1))), (name, true));
        assert_ne!(found.digest, token(name).digest);
        let shown = found.subscribers.as_ref().map(|names| names.as_slice().concat());
        assert_eq!(shown.as_deref(), Some("unreadable"), "not all");
        assert_eq!(revoke(&mut world, name), Reply::Done);
    }
}
