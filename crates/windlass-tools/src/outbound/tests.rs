use std::sync::Mutex;

use super::*;

fn rules(texts: &[&str]) -> Vec<OutboundRule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn server(allow: &[&str], deny: &[&str]) -> Outbound {
    Outbound::default().with_rules(rules(allow), rules(deny), "server.outbound")
}

/// Resolves a name to one list of addresses after the other.
struct ChangingResolver(Mutex<Vec<Vec<IpAddr>>>);

impl ChangingResolver {
    fn new(answers: &[&[&str]]) -> ChangingResolver {
        let parsed = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        ChangingResolver(Mutex::new(answers.iter().rev().map(parsed).collect()))
    }
}

impl Resolver for ChangingResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let answer = self.0.lock().unwrap().pop();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("asked once too often")) })
    }
}

/// Returns the allowed addresses of a host, or the reason why there is none.
async fn describe(outbound: &Outbound, host: &str, port: u16) -> String {
    match outbound.addresses(host, port).await {
        Ok(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn addresses_in_every_form() {
    let closed = server(&[], &[]);
    // The host as written, and its kind.
    for (host, kind) in [
        ("127.0.0.1", "this machine (loopback)"),
        ("127.255.255.254", "this machine (loopback)"),
        ("127.0.0.1.", "this machine (loopback)"),
        ("localhost", "this machine (loopback)"),
        ("LOCALHOST.", "this machine (loopback)"),
        ("a.b.localhost", "this machine (loopback)"),
        ("ip6-localhost", "this machine (loopback)"),
        ("localhost.localdomain", "this machine (loopback)"),
        ("0.0.0.0", "an unspecified address"),
        ("0.1.2.3", "an unspecified address"),
        ("10.1.2.3", "a private network"),
        ("172.16.0.1", "a private network"),
        ("172.31.255.255", "a private network"),
        ("192.168.0.1", "a private network"),
        ("169.254.1.1", "the local link"),
        ("169.254.169.254", "cloud metadata"),
        ("169.254.170.2", "cloud metadata"),
        ("100.100.100.200", "cloud metadata"),
        ("168.63.129.16", "cloud metadata"),
        ("192.0.0.192", "cloud metadata"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("100.127.255.255", "carrier-grade NAT"),
        ("198.18.0.1", "benchmarks"),
        ("198.19.255.255", "benchmarks"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("192.0.0.1", "reserved"),
        ("192.88.99.1", "reserved"),
        ("224.0.0.1", "a multicast address"),
        ("239.255.255.255", "a multicast address"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("[::]", "an unspecified address"),
        ("[::1]", "this machine (loopback)"),
        ("[0:0:0:0:0:0:0:1]", "this machine (loopback)"),
        ("[::ffff:127.0.0.1]", "this machine (loopback)"),
        ("[::ffff:7f00:1]", "this machine (loopback)"),
        ("[::ffff:a9fe:a9fe]", "cloud metadata"),
        ("[::127.0.0.1]", "embeds an IPv4 address"),
        ("[::ffff:0:127.0.0.1]", "embeds an IPv4 address"),
        ("[64:ff9b::a00:1]", "embeds an IPv4 address"),
        ("[64:ff9b::a9fe:a9fe]", "embeds an IPv4 address"),
        ("[64:ff9b:1::1]", "embeds an IPv4 address"),
        ("[2002:7f00:1::]", "embeds an IPv4 address"),
        ("[2002:101:101::]", "embeds an IPv4 address"),
        ("[2001::1]", "embeds an IPv4 address"),
        ("[2001:0:53aa:64c:0:0:80ff:fffe]", "embeds an IPv4 address"),
        ("[2606:4700::5efe:10.0.0.1]", "embeds an IPv4 address"),
        ("[2001:db8::1]", "documentation"),
        ("[3fff::1]", "documentation"),
        ("[2001:2::1]", "benchmarks"),
        ("[2001:10::1]", "reserved"),
        ("[100::1]", "reserved"),
        ("[fc00::1]", "a private network"),
        ("[fdff::1]", "a private network"),
        ("[fec0::1]", "a private network"),
        ("[fd00:ec2::254]", "cloud metadata"),
        ("[fd20:ce::254]", "cloud metadata"),
        ("[fe80::1]", "the local link"),
        ("[febf::1]", "the local link"),
        ("[ff02::1]", "a multicast address"),
        ("2130706433", "usual spelling"),
        ("017700000001", "usual spelling"),
        ("0177.0.0.1", "usual spelling"),
        ("0x7f000001", "usual spelling"),
        ("0x7f.0.0.1", "usual spelling"),
        ("0x7F.1", "usual spelling"),
        ("127.1", "usual spelling"),
        ("127.0.1", "usual spelling"),
        ("1.1.1.1.1", "usual spelling"),
        ("127.0.0.0x1", "usual spelling"),
        ("0x", "usual spelling"),
        ("[fe80::1%25lo]", "usual spelling"),
        ("[127.0.0.1]", "usual spelling"),
        ("[::1", "usual spelling"),
        ("127.0.0.1..", "usual spelling"),
        ("a..b", "usual spelling"),
        (".", "usual spelling"),
        ("", "usual spelling"),
        ("user@host", "usual spelling"),
        ("host\\other", "usual spelling"),
        ("host%2eother", "usual spelling"),
        ("①②⑦.0.0.1", "usual spelling"),
    ] {
        let description = describe(&closed, host, 80).await;
        assert!(description.contains(kind), "{host}: {description}");
    }
    for (host, address) in [
        ("1.1.1.1", "1.1.1.1:80"),
        ("1.1.1.1.", "1.1.1.1:80"),
        ("172.32.0.1", "172.32.0.1:80"),
        ("100.128.0.1", "100.128.0.1:80"),
        ("[2606:4700::1111]", "[2606:4700::1111]:80"),
        ("2606:4700::1111", "[2606:4700::1111]:80"),
        ("[::ffff:1.1.1.1]", "[::ffff:1.1.1.1]:80"),
        ("[64:ff9b::101:101]", "[64:ff9b::101:101]:80"),
    ] {
        assert_eq!(describe(&closed, host, 80).await, address, "{host}");
        assert_eq!(describe(&Outbound::open(), host, 80).await, address, "{host}");
    }
    assert_eq!(describe(&Outbound::open(), "127.0.0.1", 80).await, "127.0.0.1:80");
}

#[tokio::test]
async fn rules_open_and_close() {
    let allow =
        ["10.1.0.0/16", "intranet.example:8443", "*.lab.example", "127.0.0.1:9000", "[fd00::1]:443", "169.254.1.0/24"];
    let deny = ["10.1.9.0/24", "secret.lab.example", "1.1.1.1", "2.2.2.2:25", "0.0.0.0/8"];
    // Host, port, answer of the resolver, and the expected addresses or reason.
    for (host, port, answer, expected) in [
        ("10.1.2.3", 80, "", "10.1.2.3:80"),
        ("10.2.2.3", 80, "", "a private network"),
        ("10.1.9.9", 80, "", "denied"),
        ("[::ffff:10.1.9.9]", 80, "", "denied"),
        ("[64:ff9b::a01:909]", 80, "", "denied"),
        ("[::ffff:10.1.2.3]", 80, "", "[::ffff:10.1.2.3]:80"),
        ("intranet.example", 8443, "10.7.7.7", "10.7.7.7:8443"),
        ("Intranet.Example.", 8443, "10.7.7.7", "10.7.7.7:8443"),
        ("intranet.example", 443, "10.7.7.7", "leads to 10.7.7.7, which is not public"),
        ("intranet.example", 8443, "10.1.9.1", "denied"),
        ("intranet.example", 8443, "169.254.169.254", "cloud metadata"),
        ("intranet.example", 8443, "169.254.9.9", "the local link"),
        ("intranet.example", 8443, "169.254.1.9", "169.254.1.9:8443"),
        ("notintranet.example", 8443, "10.7.7.7", "not public"),
        ("a.lab.example", 1, "127.0.0.1", "127.0.0.1:1"),
        ("b.a.lab.example", 1, "fd00::9", "[fd00::9]:1"),
        ("lab.example", 1, "127.0.0.1", "not public"),
        ("evillab.example", 1, "127.0.0.1", "not public"),
        ("secret.lab.example", 1, "10.1.1.1", "denied"),
        ("localhost", 9000, "8.8.8.8", "127.0.0.1:9000"),
        ("localhost", 9001, "8.8.8.8", "not public"),
        ("fd00::1", 443, "", "[fd00::1]:443"),
        ("1.1.1.1", 443, "", "denied"),
        ("2.2.2.2", 25, "", "denied"),
        ("2.2.2.2", 80, "", "2.2.2.2:80"),
        ("mixed.example", 80, "127.0.0.1 8.8.8.8 10.0.0.1", "8.8.8.8:80"),
        ("none.example", 80, "", "no address"),
    ] {
        let answer: Vec<&str> = answer.split_whitespace().collect();
        let outbound = server(&allow, &deny).with_resolver(ChangingResolver::new(&[&answer]));
        let description = describe(&outbound, host, port).await;
        assert!(description.contains(expected), "{host}:{port}: {description}");
    }
    let open = Outbound::open().with_rules(Vec::new(), rules(&["127.0.0.0/8"]), "x");
    assert!(describe(&open, "localhost", 1).await.contains("[::1]"), "only what is denied");
    assert!(describe(&open, "127.0.0.1", 1).await.contains("denied"));
}

#[tokio::test]
async fn only_configured_hosts_are_trusted() {
    let base = server(&[], &["10.0.0.9"]);
    let urls = ["http://10.0.0.5:8080/v1", "https://models.example/x", "http://10.0.0.9/", "http://169.254.169.254/"];
    for (host, port, answer, expected) in [
        ("10.0.0.5", 8080, "", "10.0.0.5:8080"),
        ("10.0.0.5", 8081, "", "not public"),
        ("10.0.0.6", 8080, "", "not public"),
        ("10.0.0.9", 80, "", "denied"),
        ("models.example", 443, "192.168.1.1", "192.168.1.1:443"),
        ("models.example", 443, "169.254.169.254", "cloud metadata"),
        ("models.example", 80, "192.168.1.1", "not public"),
        ("other.example", 443, "192.168.1.1", "not public"),
        ("169.254.169.254", 80, "", "169.254.169.254:80"),
    ] {
        let answer: Vec<&str> = answer.split_whitespace().collect();
        let outbound = base.with_trusted_urls(urls).with_resolver(ChangingResolver::new(&[&answer]));
        let description = describe(&outbound, host, port).await;
        assert!(description.contains(expected), "{host}:{port}: {description}");
    }
    assert!(describe(&base, "10.0.0.5", 8080).await.contains("not public"), "the policy it came from is as it was");
    assert_eq!(describe(&base.with_trusted_host("10.0.0.5", 5432), "10.0.0.5", 5432).await, "10.0.0.5:5432");
}

#[tokio::test]
async fn a_refusal_says_what_and_how_to_allow_it() {
    for (host, answer, message, hint) in [
        ("10.0.0.1", "", "x: `10.0.0.1` is not public: it is a private network", "allow = [\"10.0.0.1:81\"] under"),
        ("h.example", "10.0.0.1", "x: `h.example` leads to 10.0.0.1, which is not public", "[\"h.example:81\"]"),
        ("h.example", "169.254.169.254", "leads to 169.254.169.254", "[\"169.254.169.254:81\"]"),
        ("[fd00::1]", "", "`[fd00::1]` is not public", "[\"[fd00::1]:81\"]"),
        ("9.9.9.9", "", "x: `9.9.9.9` is denied", "`deny` under [server.outbound]"),
        ("0x7f.1", "", "usual spelling", "192.0.2.1"),
    ] {
        let answer: Vec<&str> = answer.split_whitespace().collect();
        let outbound = server(&[], &["9.9.9.9"]).with_resolver(ChangingResolver::new(&[&answer]));
        let error = outbound.addresses(host, 81).await.unwrap_err();
        let error_info = error.get_ref().unwrap().downcast_ref::<OutboundRefusal>().unwrap().error("x");
        assert_eq!((&*error_info.code, &*error_info.kind, error_info.replied), ("BlockedAddress", "input", false));
        assert!(error_info.message.contains(message), "{}", error_info.message);
        assert!(error_info.hint.as_ref().unwrap().contains(hint), "{:?}", error_info.hint);
    }
}

#[test]
fn invalid_rules_are_rejected() {
    for (text, why) in [
        ("10.1.2.3/16", "10.1.0.0/16"),
        ("10.1.0.0/33", "0 to 32"),
        ("fd00::/129", "0 to 128"),
        ("name/8", "not an address"),
        ("http://x", "scheme"),
        ("u@x", "login"),
        ("x:0", "port"),
        ("x:99999", "port"),
        ("*", "usual spelling"),
        ("*.1.2.3.4", "usual spelling"),
        ("0x7f.1", "usual spelling"),
        ("a b", "usual spelling"),
        ("", "usual spelling"),
    ] {
        let wrong = text.parse::<OutboundRule>().unwrap_err();
        assert!(format!("{} {}", wrong.message, wrong.hint).contains(why), "{text}: {wrong:?}");
    }
}
