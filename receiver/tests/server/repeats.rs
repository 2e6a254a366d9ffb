use crate::signing::{OTHER, SECRET, sign};
use crate::wire::request;
use crate::world::{World, now, signed};
use hookproof_verify::Profile;

const PROFILE: Profile = Profile::StandardWebhooks;

#[test]
fn a_repeat_is_accepted_and_has_no_effect() {
    let world = World::new();
    let receiver = world.serve(&[]);
    let headers = signed("a", b"{}");
    for _ in 0..3 {
        assert_eq!(request(receiver.address, "POST", "/", &headers, b"{}").status, 204);
    }
    // Signed again, like a retry.
    assert_eq!(
        request(receiver.address, "POST", "/", &sign(PROFILE, SECRET, "a", now() - 60, b"{}"), b"{}").status,
        204
    );
    assert_eq!(receiver.post("a", b"another body").status, 204);
    assert_eq!(world.settled_effects(), ["a"]);
}

#[test]
fn copies_at_once_have_one_effect() {
    let world = World::new();
    let receiver = world.serve(&[]);
    let headers = signed("a", b"{}");
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert_eq!(request(receiver.address, "POST", "/", &headers, b"{}").status, 204));
        }
    });
    assert_eq!(world.settled_effects(), ["a"]);
}

#[test]
fn a_forged_id_does_not_block_the_genuine_one() {
    let world = World::new();
    let receiver = world.serve(&[]);
    let forged = sign(PROFILE, OTHER, "a", now(), b"{}");
    assert_eq!(request(receiver.address, "POST", "/", &forged, b"{}").status, 401);
    assert_eq!(receiver.post("a", b"{}").status, 204);
    assert_eq!(world.settled_effects(), ["a"]);
}

#[test]
fn a_repeat_after_a_restart_has_no_effect() {
    let world = World::new();
    let mut receiver = world.serve(&[]);
    assert_eq!(receiver.post("a", b"{}").status, 204);
    receiver.terminate();
    assert!(receiver.wait().success());
    let receiver = world.serve(&[]);
    assert_eq!(receiver.post("a", b"{}").status, 204);
    assert_eq!(receiver.post("b", b"{}").status, 204);
    assert_eq!(world.settled_effects(), ["a", "b"]);
}
