use super::*;

fn destinations(max_failures: u64, retries: u64) -> Destinations {
    Destinations::from_limits(&ProcessLimits {
        max_destination_failures: max_failures,
        destination_pause: windlass_value::Duration::from_secs(5),
        max_destination_retries_per_minute: retries,
        ..ProcessLimits::default()
    })
}

fn uri(text: &str) -> Uri {
    text.parse().unwrap()
}

/// Sends a call with this outcome; false: it was refused.
fn call(destinations: &Destinations, to: &str, attempt: u32, health: CallHealth) -> bool {
    destinations.admit(&uri(to), attempt).map(|admitted| admitted.record(health)).is_ok()
}

use CallHealth::{Failed, Healthy, Unknown};

const TO: &str = "http://a.example/x";

#[tokio::test(start_paused = true)]
async fn a_destination_is_paused_after_failures_in_a_row_and_probed_once() {
    let all = destinations(3, 0);
    for health in [Failed, Failed, Healthy, Failed, Unknown, Failed, Failed] {
        assert!(call(&all, TO, 1, health), "{health:?}");
    }
    // The fifth failure was the third in a row.
    let refused = all.admit(&uri("http://A.example:80/y?z"), 1).err().unwrap();
    assert_eq!(refused, NotSent::Paused { failures: 3, wait: Duration::from_secs(5) });
    assert!(call(&all, "https://a.example/x", 1, Healthy), "another port is another destination");
    assert_eq!((all.paused(), all.refused()), (1, RefusedCalls { paused: 1, retries: 0 }));
    tokio::time::advance(Duration::from_millis(5_001)).await;
    let probe = all.admit(&uri(TO), 1).unwrap();
    assert!(!call(&all, TO, 1, Healthy), "one call tries it");
    probe.record(Failed);
    assert!(!call(&all, TO, 1, Healthy), "it is paused again");
    tokio::time::advance(Duration::from_millis(5_001)).await;
    // An abandoned call leaves the trial to the next one.
    drop(all.admit(&uri(TO), 1).unwrap());
    all.admit(&uri(TO), 1).unwrap().record(Healthy);
    assert_eq!(all.paused(), 0);
    assert!(call(&all, TO, 1, Failed) && call(&all, TO, 1, Failed) && call(&all, TO, 1, Healthy));
}

#[tokio::test(start_paused = true)]
async fn retries_have_a_budget_per_destination() {
    let all = destinations(0, 60);
    let retry = |to: &str| call(&all, to, 2, Failed);
    assert_eq!((0..100).filter(|_| retry(TO)).count(), 60);
    assert_eq!(all.admit(&uri(TO), 7).err().unwrap(), NotSent::RetryBudget { max_per_minute: 60 });
    assert!(retry("http://b.example/"), "another destination has its own");
    // One second is one retry, and five first attempts are one.
    tokio::time::advance(Duration::from_millis(1_001)).await;
    assert!(retry(TO) && !retry(TO));
    assert!((0..5).all(|_| call(&all, TO, 1, Failed)), "first attempts are never refused");
    assert!(retry(TO) && !retry(TO));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!((0..100).filter(|_| retry(TO)).count(), 60);
    assert_eq!(all.refused().retries, 40 + 1 + 1 + 1 + 40);
}

#[tokio::test(start_paused = true)]
async fn zero_turns_each_of_them_off_and_memory_is_bounded() {
    let off = destinations(0, 0);
    assert!((0..200).all(|attempt| call(&off, TO, attempt + 1, Failed)));
    let many = destinations(100, 60);
    for number in 0..MAX_DESTINATIONS + 100 {
        assert!(call(&many, &format!("http://host-{number}/"), 1, Failed));
    }
    let observed = |all: &Destinations| all.0.as_ref().unwrap().lock().destinations.len();
    assert_eq!(observed(&many), MAX_DESTINATIONS);
    // Those that have recovered make room.
    for number in 0..MAX_DESTINATIONS {
        assert!(call(&many, &format!("http://host-{number}/"), 1, Healthy));
    }
    assert!(call(&many, "http://one-more/", 1, Failed));
    assert_eq!(observed(&many), 1);
}
