//! Triggers against the clock and against each other: controlled times, and changes at inconvenient moments.

use crate::common;

use std::sync::Arc;

use axum::http::Method;
use common::{Reply, World, in_time};
use serde_json::{Value as Json, json};
use windlass_core::ServerLimits;
use windlass_runtime::real_now;
use windlass_server::ServerOptions;
use windlass_server::triggers::TriggerScheduler;
use windlass_store::{MemoryStore, RecordChange, RunFilter, Store};
use windlass_value::{Duration, Timestamp};

const HOUR: i64 = 3_600_000_000;
const SETTINGS: &str = "/api/v1/definitions/tidy/triggers/tick";

fn hours_from(now: Timestamp, hours: i64) -> Timestamp {
    Timestamp((now.0 / HOUR + hours) * HOUR)
}

fn runs(store: &Arc<dyn Store>) -> usize {
    store.runs(&RunFilter::default(), None, 999).expect("readable").len()
}

fn tidy(trigger: &str, action: &str) -> String {
    format!(
        r#"{{"name": "tidy", "triggers": {{"tick": {trigger}}}, "actions": {{"{action}": {{"type": "compose", "inputs": "@triggerBody()"}}}}}}"#
    )
}

const HOURLY: &str = r#"{"type": "recurrence", "recurrence": {"frequency": "Hour", "interval": 1, "startTime": "2026-01-01T00:00:00Z"}}"#;

const POLL: &str = r#"{"type": "http", "inputs": {"method": "GET", "uri": "http://news.test/feed"},
    "recurrence": {"frequency": "Hour", "interval": 1, "startTime": "2026-01-01T00:00:00Z"}}"#;

async fn put(world: &World, body: Json) -> Reply {
    world.request(Method::PUT, SETTINGS, Some(body)).await
}

/// Changes a record behind the server's back.
fn change_record(store: &Arc<dyn Store>, kind: &str, key: &str, change: impl Fn(&mut Json)) {
    let row = store.record(kind, key).expect("readable");
    let mut body = row.map_or(json!({}), |row| serde_json::from_slice(&row.body).expect("JSON"));
    change(&mut body);
    let change = RecordChange::put(kind, key, serde_json::to_vec(&body).expect("JSON"), real_now());
    assert!(store.change_records(vec![change]).expect("writable"));
}

async fn fact(world: &World, name: &str) -> Json {
    world.get("/api/v1/triggers").await.expect_status(200)["items"][0][name].clone()
}

/// Polls until a concurrent activity has made the condition true.
async fn until(mut is_true: impl AsyncFnMut() -> bool) {
    in_time(async {
        while !is_true().await {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Many times were missed. During the first catch-up, a client disables the trigger or sets another schedule.
#[tokio::test]
async fn a_change_during_a_catch_up_applies_immediately() {
    for (change, expected) in [("off", 1), ("settings", 1), ("nothing", 5)] {
        let world = World::new();
        world.register(&tidy(HOURLY, "a")).await;
        put(&world, json!({"catch_up": "all"})).await.expect_status(200);
        let app = world.app.clone();
        // The log reports a firing in the middle of the catch-up: a hook for making the change.
        let _guard = windlass_testing::log::on_line(move |line| match change {
            _ if !line.starts_with("trigger fired ") => {}
            "off" => drop(app.definitions.enable(&*app.store, "tidy", false).expect("writable")),
            "settings" => {
                change_record(&app.store, "trigger", "tidy\0tick", |settings| settings["enabled"] = json!(false))
            }
            _ => {}
        });
        let now = real_now();
        let scheduler = TriggerScheduler::new(world.app.clone());
        scheduler.fire_due(hours_from(now, 5)).await;
        assert_eq!(runs(&world.store), expected, "{change}");
        scheduler.fire_due(hours_from(now, 5)).await;
        assert_eq!(runs(&world.store), expected, "{change}: the remaining times are not caught up");
    }
}

/// A clock that was years ahead and is then corrected keeps nothing from firing.
#[tokio::test]
async fn a_clock_set_back_stops_no_schedule() {
    let world = World::new();
    world.register(&tidy(HOURLY, "a")).await;
    let now = real_now();
    let scheduler = TriggerScheduler::new(world.app.clone());
    scheduler.fire_due(hours_from(now, 90_000)).await;
    assert_eq!(runs(&world.store), 1);
    assert_eq!(scheduler.fire_due(hours_from(now, 1)).await, Some(hours_from(now, 2)));
    scheduler.fire_due(hours_from(now, 2)).await;
    assert_eq!(runs(&world.store), 2);
    // Small jumps back and forth fire nothing twice.
    let before = Timestamp(hours_from(now, 2).0 - 60_000_000);
    assert_eq!(scheduler.fire_due(before).await, Some(hours_from(now, 3)));
    scheduler.fire_due(hours_from(now, 2)).await;
    assert_eq!(runs(&world.store), 2);
}

/// Registering a version every few minutes does not keep an hourly trigger from firing.
#[tokio::test]
async fn an_unchanged_trigger_keeps_its_schedule() {
    let every = r#"{"type": "recurrence", "recurrence": {"frequency": "Hour", "interval": 1}}"#;
    let first = World::new();
    first.register(&tidy(every, "a")).await;
    let begun = Timestamp(real_now().0 - HOUR / 2);
    change_record(&first.store, "definition", "tidy", |kept| kept["begun"]["tick"] = json!(begun.0));
    let world = World::on(first.store.clone());
    let scheduler = TriggerScheduler::new(world.app.clone());
    for action in ["b", "c"] {
        assert_eq!(world.register(&tidy(every, action)).await["is_new"], true);
        assert_eq!(scheduler.fire_due(real_now()).await, Some(Timestamp(begun.0 + HOUR)), "{action}");
    }
    // Another schedule starts over.
    world.register(&tidy(&every.replace("\"interval\": 1", "\"interval\": 2"), "c")).await;
    let next = scheduler.fire_due(real_now()).await.expect("a time");
    assert!(next.0 > real_now().0 + HOUR, "{next}");
}

/// A version that becomes current again after a long time does not catch up times that were due while the current
/// version did not have the trigger.
#[tokio::test]
async fn an_old_version_that_becomes_current_again_starts_now() {
    let first = World::new();
    first.register(&tidy(HOURLY, "a")).await;
    let now = real_now();
    let long_ago = hours_from(now, -999).0;
    change_record(&first.store, "version", &format!("tidy\0{:010}", 1), |version| {
        version["registered_at"] = json!(long_ago)
    });
    change_record(&first.store, "definition", "tidy", |kept| kept["begun"]["tick"] = json!(long_ago));
    change_record(&first.store, "firing", "tidy\0tick", |firing| firing["due"] = json!(long_ago));
    let world = World::on(first.store.clone());
    world.register(r#"{"name": "tidy", "actions": {"a": {"type": "compose", "inputs": 1}}}"#).await;
    assert_eq!(world.register(&tidy(HOURLY, "a")).await["version"], 1);
    assert_eq!(TriggerScheduler::new(world.app.clone()).fire_due(now).await, Some(hours_from(now, 1)));
    assert_eq!(runs(&world.store), 0);
}

/// After many concurrent registrations of one name, all agree on the version that the store has.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_registrations_agree_on_the_newest() {
    for _ in 0..20 {
        let world = Arc::new(World::new());
        let mut all = tokio::task::JoinSet::new();
        for action in ["a", "b", "c", "d", "e", "f"] {
            let world = world.clone();
            all.spawn(async move { world.register(&tidy(HOURLY, action)).await["hash"].clone() });
        }
        while all.join_next().await.is_some() {}
        let row = world.store.record("definition", "tidy").expect("readable").expect("a record");
        let kept: Json = serde_json::from_slice(&row.body).expect("JSON");
        let seen = world.get("/api/v1/definitions/tidy").await.expect_status(200);
        assert_eq!((&seen["version"], &seen["versions"]), (&kept["current"], &json!(6)));
    }
}

/// A 202 sets the time and address of the next poll, which does not wait for the next time of the schedule.
#[tokio::test]
async fn a_poll_repeats_at_the_requested_time_and_address() {
    let world = World::new();
    world.register(&tidy(POLL, "a")).await;
    let scheduler = TriggerScheduler::new(world.app.clone());
    let due = hours_from(real_now(), 1);
    let later = Timestamp(due.0 + 90_000_000);
    world.outside.push_reply(json!({"statusCode": 202, "headers": {"retry-after": "90", "location": "ready?n=1"}}));
    scheduler.fire_due(due).await;
    until(async || fact(&world, "next_at").await == later.to_string()).await;
    assert_eq!(scheduler.fire_due(Timestamp(later.0 - 1)).await, Some(later));
    assert_eq!((world.outside.requests().len(), runs(&world.store)), (1, 0));

    world.outside.push_reply(json!({"statusCode": 200, "headers": {}, "body": {"n": 7}}));
    // The previous poll may not have ended yet: then this step finds nothing to do, and the next one does.
    until(async || {
        scheduler.fire_due(later).await;
        runs(&world.store) == 1
    })
    .await;
    let requests = world.outside.requests();
    assert_eq!(requests[1]["uri"], "http://news.test/ready?n=1", "{requests:?}");
    until(async || fact(&world, "last_at").await == later.to_string()).await;
    // Then the schedule applies again, at the original address.
    world.outside.push_reply(json!({"statusCode": 204}));
    until(async || {
        scheduler.fire_due(Timestamp(due.0 + HOUR)).await;
        fact(&world, "last_error").await == "the response has status 204"
    })
    .await;
    assert_eq!(world.outside.requests()[2]["uri"], "http://news.test/feed");
}

/// The trigger is disabled during a poll: the reply then starts no run, and this is reported.
#[tokio::test]
async fn a_trigger_disabled_during_its_poll_starts_nothing() {
    let world = World::new();
    world.register(&tidy(POLL, "a")).await;
    let app = world.app.clone();
    // The callback disables the trigger through the definitions, before the run could begin.
    world.outside.push_reply(json!({"statusCode": 200, "body": 1}));
    world.outside.on_next_request(move || drop(app.definitions.enable(&*app.store, "tidy", false)));
    let due = hours_from(real_now(), 1);
    TriggerScheduler::new(world.app.clone()).fire_due(due).await;
    until(async || fact(&world, "skipped").await == "it was disabled during the poll").await;
    assert_eq!(runs(&world.store), 0);
}

/// The reply would be lost: a trigger that may not start a run does not poll.
#[tokio::test]
async fn a_trigger_that_may_start_nothing_does_not_poll() {
    let world = World::new();
    let source =
        tidy(&POLL.replace(r#""type": "http","#, r#""type": "http", "operationOptions": "SingleInstance","#), "a");
    let source = source.replace(
        r#""type": "compose", "inputs": "@triggerBody()""#,
        r#""type": "activity", "inputs": {"activityName": "gate", "input": "gate"}"#,
    );
    world.register(&source).await;
    let scheduler = TriggerScheduler::new(world.app.clone());
    let due = hours_from(real_now(), 1);
    world.outside.push_reply(json!({"statusCode": 200, "body": 1}));
    scheduler.fire_due(due).await;
    until(async || fact(&world, "last_at").await == due.to_string()).await;
    until(async || {
        scheduler.fire_due(Timestamp(due.0 + HOUR)).await;
        fact(&world, "skipped").await.as_str().is_some_and(|why| why.contains("no run may wait"))
    })
    .await;
    assert_eq!((world.outside.requests().len(), runs(&world.store)), (1, 1));
}

/// The delivery id is still known after a crash.
#[tokio::test]
async fn a_delivery_is_known_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    let source = tidy(r#"{"type": "request"}"#, "a");
    world.register(&source).await;
    let deliver = async |world: &World| {
        let mut request = common::request(Method::POST, "/hooks/tidy/tick", Some(json!({"n": 1})));
        request.headers_mut().insert("idempotency-key", "d-1".parse().expect("a value"));
        world.send(request).await.expect_status(202)
    };
    let first = deliver(&world).await;
    drop(world);
    let world = World::adopting(Arc::new(store.crash()));
    let again = deliver(&world).await;
    assert_eq!((&again["runs"], &again["repeated"]), (&first["runs"], &json!(true)));
    assert_eq!(runs(&world.store), 1);
}

/// Sixteen polls can be in flight: the trigger that has waited longest is among them, regardless of its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trigger_that_has_waited_longest_polls_first() {
    let world = World::new();
    let now = hours_from(real_now(), 0);
    for number in 0..17 {
        let name = format!("d{number:02}");
        let text = tidy(POLL, "a").replace("\"tidy\"", &format!("{name:?}")).replace("/feed", &format!("/{name}"));
        world.register(&text).await;
        let hours = if number == 16 { 3 } else { 2 };
        change_record(&world.store, "definition", &name, |kept| kept["begun"]["tick"] = json!(hours_from(now, -9).0));
        change_record(&world.store, "firing", &format!("{name}\0tick"), |firing| {
            firing["due"] = json!(hours_from(now, -hours).0)
        });
    }
    // The state as the next server finds it.
    let world = World::on(world.store.clone());
    TriggerScheduler::new(world.app.clone()).fire_due(now).await;
    until(async || world.outside.requests().len() >= 16).await;
    let addresses: Vec<Json> = world.outside.requests().iter().map(|request| request["uri"].clone()).collect();
    assert!(addresses.len() == 16 && addresses.contains(&json!("http://news.test/d16")), "{addresses:?}");
}

/// The limits of polls: how many in flight, how long one may take, how long its reply may delay the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_have_limits() {
    let limited = |change: fn(&mut ServerLimits)| {
        let mut options = ServerOptions::default();
        change(&mut options.limits);
        World::with(Arc::new(MemoryStore::new()), options)
    };
    let due = hours_from(real_now(), 1);
    let world = limited(|limits| limits.max_poll_wait = Duration::from_secs(60));
    world.register(&tidy(POLL, "a")).await;
    world.outside.push_reply(json!({"statusCode": 202, "headers": {"retry-after": "90"}}));
    TriggerScheduler::new(world.app.clone()).fire_due(due).await;
    until(async || fact(&world, "next_at").await == Timestamp(due.0 + 60_000_000).to_string()).await;

    // The polled server does not reply.
    let world = limited(|limits| limits.max_poll_time = Duration::from_ms(50));
    world.register(&tidy(POLL, "a")).await;
    TriggerScheduler::new(world.app.clone()).fire_due(due).await;
    let named = |error: Json| error.as_str().is_some_and(|error| error.contains("`server.max_poll_time`"));
    until(async || named(fact(&world, "last_error").await)).await;

    let world = limited(|limits| limits.max_poll_concurrency = 1);
    for name in ["d1", "d2"] {
        world.register(&tidy(POLL, "a").replace("\"tidy\"", &format!("{name:?}"))).await;
    }
    let scheduler = TriggerScheduler::new(world.app.clone());
    scheduler.fire_due(due).await;
    scheduler.fire_due(due).await;
    until(async || world.outside.requests().len() == 1).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.outside.requests().len(), 1, "the other waits for the next look");
}

/// A polled server replies once. After a crash at any commit, each item of one reply has exactly one run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_reply_survives_a_crash() {
    let split = tidy(&POLL.replace(r#""type": "http","#, r#""type": "http", "splitOn": "@triggerBody()","#), "a");
    let due = hours_from(real_now(), 1);
    let answer = |items: [i64; 5]| json!({"statusCode": 200, "headers": {}, "body": items});
    let is_kept = |store: &Arc<dyn Store>| store.record("poll_reply", "tidy\0tick").is_ok_and(|row| row.is_some());
    let mut kept = 0;
    for at in 1.. {
        let store = Arc::new(MemoryStore::new());
        let world = World::on(store.clone());
        world.register(&split).await;
        world.outside.push_reply(answer([1, 2, 3, 4, 5]));
        store.crash_before_sync(at);
        TriggerScheduler::new(world.app.clone()).fire_due(due).await;
        let stopped = || world.store.run("any").is_err();
        let is_noted = || world.store.record("firing", "tidy\0tick").is_ok_and(|row| row.is_some());
        until(async || stopped() || (is_noted() && !is_kept(&world.store))).await;
        let reached = stopped();
        let left: Arc<dyn Store> = Arc::new(store.crash());
        drop(world);
        kept += usize::from(is_kept(&left));
        let was_received = is_kept(&left) || runs(&left) > 0;
        let world = World::adopting(left);
        world.outside.push_reply(answer([6, 7, 8, 9, 10]));
        TriggerScheduler::new(world.app.clone()).fire_due(due).await;
        until(async || runs(&world.store) == 5 && !is_kept(&world.store)).await;
        let rows = world.store.runs(&RunFilter::default(), None, 9).expect("readable");
        let mut items = Vec::new();
        for row in rows {
            items.push(
                world.get(&format!("/api/v1/runs/{}", row.run)).await.expect_status(200)["input"]
                    .as_i64()
                    .expect("an item"),
            );
        }
        items.sort_unstable();
        let expected = if was_received { [1, 2, 3, 4, 5] } else { [6, 7, 8, 9, 10] };
        assert_eq!(items, expected, "crash {at}");
        assert_eq!(world.outside.requests().len(), usize::from(!was_received), "crash {at}");
        if !reached {
            break;
        }
    }
    assert!(kept >= 2, "only {kept} crashes came in between");
}

/// The clock is set back behind times that have fired: a recurrence goes on at once, and each new time fires once.
#[tokio::test]
async fn a_recurrence_goes_on_when_the_clock_is_set_back_an_hour() {
    const MINUTE: i64 = 60_000_000;
    let every = r#"{"type": "recurrence", "recurrence": {"frequency": "Minute", "interval": 10}}"#;
    let world = World::new();
    world.register(&tidy(every, "a")).await;
    let begun = real_now();
    let scheduler = TriggerScheduler::new(world.app.clone());
    let at = |minutes: i64| Timestamp(begun.0 + minutes * MINUTE);
    for minutes in [11, 21, 31, 41, 51, 61] {
        scheduler.fire_due(at(minutes)).await;
    }
    assert_eq!(runs(&world.store), 6);
    for (minutes, expected) in [(1, 6), (9, 6), (11, 7), (11, 7), (21, 8), (31, 9)] {
        let next = scheduler.fire_due(at(minutes)).await.expect("it goes on");
        assert!(next > at(minutes) && next <= at(minutes + 10), "minute {minutes}: next at {next}");
        assert_eq!(runs(&world.store), expected, "minute {minutes}: nothing early, nothing twice, nothing left out");
    }
}

/// The clock was an hour ahead when the definition was registered.
#[tokio::test]
async fn a_definition_of_the_future_fires_as_well() {
    let every = r#"{"type": "recurrence", "recurrence": {"frequency": "Minute", "interval": 10}}"#;
    let first = World::new();
    first.register(&tidy(every, "a")).await;
    let now = real_now();
    let ahead = now.0 + HOUR;
    change_record(&first.store, "definition", "tidy", |kept| kept["begun"]["tick"] = json!(ahead));
    change_record(&first.store, "version", &format!("tidy\0{:010}", 1), |version| {
        version["registered_at"] = json!(ahead)
    });
    let world = World::on(first.store.clone());
    let scheduler = TriggerScheduler::new(world.app.clone());
    let next = scheduler.fire_due(now).await.expect("it fires");
    assert!(next.0 > now.0 && next.0 <= now.0 + HOUR / 6, "{next}");
    scheduler.fire_due(next).await;
    assert_eq!(runs(&world.store), 1);
}
