//! `paginationPolicy` of an `http` action, through the program: all pages, with each way to name the next one; pages
//! that fail; links that lead nowhere new; and a process killed at any commit between the pages.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use windlass_syntax::SourceText;
use windlass_testing::mock::{MockFile, MockService};

use crate::support::{CommandOutput, TestDir};

struct PageService {
    service: MockService,
    served: Arc<Mutex<Vec<String>>>,
}

impl PageService {
    fn start(routes: &Value) -> PageService {
        let served: Arc<Mutex<Vec<String>>> = Arc::default();
        let source = SourceText::new("service.json", json!({"mocks": routes}).to_string());
        let script = MockFile::parse(&source)
            .unwrap_or_else(|problems| panic!("{}", problems.render(&source, windlass_syntax::Colour::Never)));
        let noted = served.clone();
        let service = MockService::with_observer(script, 0, move |one| {
            let line = format!("{} {} {}", one.method, one.path, one.status);
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        });
        PageService { service: service.expect("a service"), served }
    }

    /// Returns the requests since the last call.
    fn take_served(&self) -> Vec<String> {
        std::mem::take(&mut *self.served.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A definition that gets the list at a path and returns its body.
fn definition(service: &PageService, path: &str, policy: &Value, more: &Value) -> String {
    let mut inputs = json!({"method": "GET", "uri": service.service.url(path)});
    for (key, value) in more.as_object().into_iter().flatten() {
        inputs[key] = value.clone();
    }
    json!({
        "actions": {"list": {"type": "Http", "inputs": inputs, "runtimeConfiguration": {"paginationPolicy": policy}}},
        "outputs": {"body": "@body('list')", "status": "@outputs('list').statusCode"}
    })
    .to_string()
}

fn run(directory: &TestDir, definition: &str) -> (Value, CommandOutput) {
    directory.write("list.json", definition);
    let done = directory.windlass(&["run", "list.json", "--virtual-time", "--json", "-q"]);
    (done.json(), done)
}

/// Routes of a list at this path: each page has its body, its next page's number if any, and where that is said.
fn routes(path: &str, pages: &[(Value, Option<&str>)], place: &str) -> Vec<Value> {
    let route = |(at, (body, next)): (usize, &(Value, Option<&str>))| {
        let (mut body, mut headers) = (body.clone(), json!({}));
        match (place, next) {
            (_, None) => {}
            ("Link", Some(next)) => {
                headers["Link"] = json!(format!("</other>; rel=\"last\", <{next}>; title=\"a, b\"; rel=\"next\""))
            }
            (key, Some(next)) => body[key] = json!(next),
        }
        let mut route = json!({"when": {"url": path}, "body": body, "headers": headers});
        if at > 0 {
            route["when"]["query"] = json!({"page": (at + 1).to_string()});
        }
        route
    };
    // The first page has no query, so its route comes last.
    pages.iter().enumerate().map(route).rev().collect()
}

fn list_of_three(path: &str, place: &str) -> Vec<Value> {
    let pages = [
        (json!({"value": [1, 2], "total": 5}), Some("?page=2")),
        (json!({"value": [3, 4], "total": 5}), Some("?page=3")),
        (json!({"value": [5], "total": 5}), None),
    ];
    let arrays = pages.clone().map(|(body, next)| (body["value"].clone(), next));
    routes(path, if place == "Link" { &arrays } else { &pages }, place)
}

#[test]
fn all_pages_are_collected() {
    let mut all = Vec::new();
    for (path, place) in
        [("/plain", "nextLink"), ("/case", "NextLink"), ("/odata", "@odata.nextLink"), ("/links", "Link")]
    {
        all.extend(list_of_three(path, place));
    }
    let (service, directory) = (PageService::start(&json!(all)), TestDir::new());
    let whole = json!({"value": [1, 2, 3, 4, 5], "total": 5});
    for (path, minimum, expected, pages) in [
        ("/plain", json!(1000), whole.clone(), 3),
        ("/case", json!(1000), whole.clone(), 3),
        ("/odata", json!(5), whole.clone(), 3),
        ("/links", json!(1000), json!([1, 2, 3, 4, 5]), 3),
        ("/plain", json!("@add(2, 3)"), whole.clone(), 3),
        // Whole pages are collected; the link says that there are more.
        ("/plain", json!(3), json!({"value": [1, 2, 3, 4], "total": 5, "nextLink": "?page=3"}), 2),
        ("/plain", json!(2), json!({"value": [1, 2], "total": 5, "nextLink": "?page=2"}), 1),
        ("/links", json!(1), json!([1, 2]), 1),
    ] {
        let policy = json!({"minimumItemCount": minimum});
        let (report, done) = run(&directory, &definition(&service, path, &policy, &json!({})));
        assert_eq!(report["output"], json!({"body": expected, "status": 200}), "{path} {minimum} {}", done.err);
        let links = ["", "?page=2", "?page=3"];
        let requests: Vec<String> = links[..pages].iter().map(|link| format!("GET {path}{link} 200")).collect();
        assert_eq!(service.take_served(), requests, "{path} {minimum}");
    }
    // Without a number, all pages are wanted. The pages after the first are always read with GET.
    let post = json!({"method": "POST", "body": {"q": 1}, "queries": {"x": "1"}});
    let (report, _) = run(&directory, &definition(&service, "/plain", &json!({}), &post));
    assert_eq!(report["output"]["body"], whole);
    assert_eq!(service.take_served(), ["POST /plain?x=1 200", "GET /plain?page=2 200", "GET /plain?page=3 200"]);
}

/// A mock answers the whole action: it reports no page, and its body is the list.
#[test]
fn a_mock_answers_all_pages_at_once() {
    let (service, directory) = (PageService::start(&json!([])), TestDir::new());
    directory.write("list.json", definition(&service, "/list", &json!({"minimumItemCount": 1000}), &json!({})));
    for body in [json!({"value": [1, 2], "nextLink": "http://h/2"}), json!([3]), json!({"other": 1}), json!("text")] {
        let output = json!({"statusCode": 200, "headers": {}, "body": body});
        directory.write("mocks.json", json!({"mocks": [{"when": {"step": "list"}, "output": output}]}).to_string());
        let done = directory.windlass(&["run", "list.json", "--static", "mocks.json", "--json", "-q"]);
        assert_eq!(done.json()["output"], json!({"body": body, "status": 200}), "{}", done.err);
    }
}

#[test]
fn a_list_that_cannot_be_read_to_its_end_fails() {
    let page = |next: &str| json!({"value": [1], "nextLink": next});
    let failing = json!([{"status": 503, "body": "busy"}, {"body": {"value": [2]}}]);
    let all = json!([
        {"when": {"url": "/itself"}, "body": page("/itself")},
        {"when": {"url": "/circle/2"}, "body": page("/circle/1")},
        {"when": {"url": "/circle/1"}, "body": page("2")},
        {"when": {"url": "/object"}, "body": {"results": [1]}},
        {"when": {"url": "/text"}, "body": "text"},
        {"when": {"url": "/number"}, "body": {"value": [1], "nextLink": 2}},
        {"when": {"url": "/scheme"}, "body": page("ftp://h/x")},
        {"when": {"url": "/login"}, "body": page("http://u:p@127.0.0.1/x")},
        {"when": {"url": "/gone/2"}, "status": 404, "body": {"why": "gone"}},
        {"when": {"url": "/gone"}, "body": page("/gone/2")},
        {"when": {"url": "/busy/2"}, "answers": failing},
        {"when": {"url": "/busy"}, "body": page("/busy/2")}
    ]);
    let (service, directory) = (PageService::start(&all), TestDir::new());
    let policy = json!({"minimumItemCount": 1000});
    for (path, code, part) in [
        ("/itself", "PaginationCycle", "leads back to a page that was fetched before"),
        ("/circle/1", "PaginationCycle", "/circle/1 (after 2 items)"),
        ("/object", "InvalidPageResponse", "a body without an array `value`"),
        ("/text", "InvalidPageResponse", "a body that is string"),
        ("/number", "InvalidPageResponse", "`nextLink` is integer, not a string"),
        ("/scheme", "InvalidPageResponse", "its scheme is not http or https"),
        ("/login", "InvalidPageResponse", "contains a login"),
        ("/gone", "404", "GET http"),
        ("/busy", "503", "GET http"),
    ] {
        let (report, done) = run(&directory, &definition(&service, path, &policy, &json!({})));
        let error = &report["error"];
        assert_eq!((done.code, &error["code"]), (Some(1), &json!(code)), "{path}: {report}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(part)), "{path}: {error}");
    }
    service.take_served();
    // A page that fails is repeated by the action's retry policy, not the whole list.
    let service = PageService::start(&all);
    let retry = json!({"retryPolicy": {"type": "fixed", "count": 2, "interval": "PT5S"}});
    let (report, _) = run(&directory, &definition(&service, "/busy", &policy, &retry));
    assert_eq!(report["output"]["body"], json!({"value": [1, 2]}), "{report}");
    assert_eq!(service.take_served(), ["GET /busy 200", "GET /busy/2 503", "GET /busy/2 200"]);
}

/// A service that names a next page for ever, as far as the action asks.
#[test]
fn a_list_of_more_pages_than_the_limit_fails() {
    let page = |number: usize| (json!({"value": [number]}), Some(["?page=2", "?page=3", "?page=4", "?page=5"][number]));
    let pages: Vec<(Value, Option<&str>)> = (0..4).map(page).collect();
    let (service, directory) = (PageService::start(&json!(routes("/endless", &pages, "nextLink"))), TestDir::new());
    directory.write("windlass.toml", "[limits]\nmax_pages = 3\n");
    let limits = directory.windlass(&["limits"]).out;
    assert!(limits.contains("max_pages"), "{limits}");
    for policy in [json!({}), json!({"minimumItemCount": 1000})] {
        let (report, done) = run(&directory, &definition(&service, "/endless", &policy, &json!({})));
        let error = &report["error"];
        assert_eq!((done.code, &error["code"]), (Some(1), &json!("PaginationLimit")), "{policy}: {report}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("more than 3 pages, the limit `max_pages`"), "{message}");
        assert_eq!(service.take_served().len(), 3, "{policy}");
    }
    // As many pages as the limit are not too many.
    let policy = json!({"minimumItemCount": 3});
    let (report, done) = run(&directory, &definition(&service, "/endless", &policy, &json!({})));
    assert_eq!(report["output"]["body"]["value"], json!([0, 1, 2]), "{}", done.err);
}

/// Concurrent iterations collect separate lists, and a later iteration begins a new one.
#[test]
fn every_iteration_has_its_own_list() {
    let all: Vec<Value> = ["/a", "/b", "/c"].into_iter().flat_map(|path| list_of_three(path, "nextLink")).collect();
    let (service, directory) = (PageService::start(&json!(all)), TestDir::new());
    let uri = format!("{}@{{item()}}", service.service.url("").trim_end_matches('/'));
    for (kind, sequential) in [("parallel", json!({})), ("sequential", json!({"operationOptions": "Sequential"}))] {
        let mut each = json!({
            "type": "Foreach", "foreach": ["/a", "/b", "/c"],
            "actions": {"list": {"type": "Http", "inputs": {"method": "GET", "uri": uri},
                "runtimeConfiguration": {"paginationPolicy": {"minimumItemCount": 100}}}}
        });
        for (key, value) in sequential.as_object().into_iter().flatten() {
            each[key] = value.clone();
        }
        let text = json!({"actions": {"each": each}, "outputs": {"lists": "@body('list')"}}).to_string();
        let (report, done) = run(&directory, &text);
        let list = json!({"value": [1, 2, 3, 4, 5], "total": 5});
        assert_eq!(report["output"]["lists"], json!([list, list, list]), "{kind}: {}", done.err);
    }
}

#[test]
fn a_run_killed_between_pages_continues_at_its_page() {
    let service = PageService::start(&json!(list_of_three("/plain", "nextLink")));
    let directory = TestDir::new();
    directory.write("list.json", definition(&service, "/plain", &json!({"minimumItemCount": 100}), &json!({})));
    let requests = ["GET /plain 200", "GET /plain?page=2 200", "GET /plain?page=3 200"];
    for moment in ["before", "after"] {
        let mut commits = 0;
        loop {
            commits += 1;
            let (id, crash) = (format!("{moment}-{commits}"), format!("{moment}:{commits}"));
            let done = directory.windlass(&["run", "list.json", "--id", &id, "--crash-at", &crash, "--json", "-q"]);
            let is_killed = done.code.is_none();
            let report = match (is_killed, moment, commits) {
                (false, _, _) => done.json(),
                // Before the first commit there is nothing to resume.
                (true, "before", 1) => {
                    service.take_served();
                    continue;
                }
                (true, _, _) => directory.json(&["resume", &id, "--json", "-q"]),
            };
            assert_eq!(report["output"]["body"], json!({"value": [1, 2, 3, 4, 5], "total": 5}), "{id}: {report}");
            let mut served = service.take_served();
            // At most the call in flight is repeated; no page before it is.
            let repeats = served.len() - requests.len();
            served.dedup();
            assert_eq!((served, repeats <= 1), (requests.map(str::to_owned).to_vec(), true), "{id}: {repeats}");
            if !is_killed {
                break;
            }
        }
        assert!(commits > 4, "no more than {commits} commits");
    }
}
