//! The TLS options of the command line, with certificates made here: who gets in and who does not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ebb_p4runtime::proto::p4::CapabilitiesRequest;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_testkit::{Folder, Need, PATIENCE, Process, free_address, wait_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::server::SWITCH;

/// How long a connection may take until its first call.
const FIRST_CALL: Duration = Duration::from_secs(10);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("signed")
}

/// Certificate and key of "localhost".
fn signed_by(authority: &Authority) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, authority).expect("signed");
    (certificate.pem(), key.serialize_pem())
}

/// Writes a file; its path as text.
fn file(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.write(name, text);
    path.to_str().expect("UTF-8").to_owned()
}

fn command(folder: &Folder, address: &str, options: &[&str]) -> Command {
    let mut command = Command::new(SWITCH);
    command
        .args(["--no-p4", "-L", "warn", "--grpc-server-addr", address])
        .args(options)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

struct Switch {
    _process: Process,
    address: String,
}

impl Switch {
    /// Starts a switch, which listens when this returns.
    fn start(folder: &Folder, options: &[&str]) -> Self {
        let address = free_address().to_string();
        let mut process = Process::start(&mut command(folder, &address, options));
        wait_until("the switch listens", || {
            assert!(!process.has_ended(), "{}", process.said());
            TcpStream::connect(&address).is_ok()
        });
        Self {
            _process: process,
            address,
        }
    }

    /// Whether a client gets an answer: without TLS, or as this config says.
    async fn answers(&self, tls: Option<ClientTlsConfig>) -> bool {
        let ask = async {
            let channel = endpoint(&self.address, tls).connect().await.ok()?;
            let request = CapabilitiesRequest::default();
            let answer = P4RuntimeClient::new(channel).capabilities(request).await;
            answer.ok()
        };
        let answer = tokio::time::timeout(PATIENCE, ask).await;
        answer.expect("neither answered nor refused").is_some()
    }
}

fn endpoint(address: &str, tls: Option<ClientTlsConfig>) -> Endpoint {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let uri = format!("{scheme}://{address}");
    let endpoint = Channel::from_shared(uri).expect("an address");
    match tls {
        Some(tls) => endpoint.tls_config(tls).expect("certificates"),
        None => endpoint,
    }
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.pem()))
        .domain_name("localhost")
}

fn with_identity(config: ClientTlsConfig, by: &Authority) -> ClientTlsConfig {
    let (certificate, key) = signed_by(by);
    config.identity(Identity::from_pem(certificate, key))
}

#[tokio::main(flavor = "current_thread")]
async fn with_tls_only_clients_that_know_the_authority_talk_to_it() {
    let folder = Folder::new("tls");
    let (own, other) = (authority(), authority());
    let (certificate, key) = signed_by(&own);
    let certificate = file(&folder, "server.pem", &certificate);
    let key = file(&folder, "server.key", &key);
    let options = ["--grpc-server-ssl", "--grpc-server-cert", &certificate];
    let options = [&options[..], &["--grpc-server-key", &key]].concat();
    let switch = Switch::start(&folder, &options);
    assert!(switch.answers(Some(trusting(&own))).await);
    assert!(!switch.answers(None).await, "without TLS");
    assert!(!switch.answers(Some(trusting(&other))).await, "wrong CA");
    // Nobody asked for it, and it does no harm.
    let proven = with_identity(trusting(&own), &own);
    assert!(switch.answers(Some(proven)).await);
}

#[tokio::main(flavor = "current_thread")]
async fn with_mutual_tls_only_clients_of_the_authority_get_in() {
    let folder = Folder::new("tls");
    let (own, other) = (authority(), authority());
    let (certificate, key) = signed_by(&own);
    let certificate = file(&folder, "server.pem", &certificate);
    let key = file(&folder, "server.key", &key);
    let clients = file(&folder, "clients.pem", &own.pem());
    let switch = Switch::start(
        &folder,
        &[
            "--grpc-server-ssl",
            "--grpc-server-cert",
            &certificate,
            "--grpc-server-key",
            &key,
            "--grpc-server-with-client-auth",
            "--grpc-server-cacert",
            &clients,
        ],
    );
    let proven = with_identity(trusting(&own), &own);
    assert!(switch.answers(Some(proven)).await);
    let unproven = Some(trusting(&own));
    assert!(!switch.answers(unproven).await, "without a certificate");
    let foreign = with_identity(trusting(&own), &other);
    assert!(!switch.answers(Some(foreign)).await, "of another authority");
    assert!(!switch.answers(None).await, "without TLS");
}

/// Message of the switch when it does not start.
fn refusal(folder: &Folder, options: &[&str]) -> String {
    let process = Process::start(&mut command(folder, "127.0.0.1:0", options));
    let (code, said) = process.end();
    assert_ne!(code, Some(0));
    said
}

fn files_and_options_that_cannot_work_are_explained() {
    let folder = Folder::new("tls");
    let own = authority();
    let (certificate, key) = signed_by(&own);
    let certificate = file(&folder, "server.pem", &certificate);
    let key = file(&folder, "server.key", &key);
    let foreign = file(&folder, "foreign.key", &signed_by(&own).1);
    let text = file(&folder, "notes.txt", "not PEM\n");
    let ssl = |certificate: &str, key: &str| {
        refusal(
            &folder,
            &[
                "--grpc-server-ssl",
                "--grpc-server-cert",
                certificate,
                "--grpc-server-key",
                key,
            ],
        )
    };
    let missing = ssl("none.pem", &key);
    assert!(
        missing.contains("cannot read the certificate none.pem: "),
        "{missing}"
    );
    let wrong = ssl(&text, &key);
    assert!(wrong.contains("notes.txt is not PEM"), "{wrong}");
    // Each file is fine; they do not belong together.
    let mixed = ssl(&certificate, &foreign);
    assert!(mixed.contains("foreign.key cannot be used: "), "{mixed}");
    assert_eq!(mixed.trim().lines().count(), 1, "{mixed}");
    let alone = refusal(&folder, &["--grpc-server-ssl"]);
    assert!(alone.contains("--grpc-server-cert"), "{alone}");
    let without = refusal(&folder, &["--grpc-server-cert", &certificate]);
    assert!(without.contains("--grpc-server-ssl"), "{without}");
}

/// First bytes of a client of this config: one record, with the ClientHello.
async fn client_hello(config: ClientTlsConfig) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = endpoint(
        &listener.local_addr().expect("bound").to_string(),
        Some(config),
    );
    let client = tokio::spawn(async move { endpoint.connect().await.map(drop) });
    let heard = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        // Type, version and length of the record (RFC 8446, section 5.1).
        let mut record = vec![0; 5];
        stream.read_exact(&mut record).expect("a header");
        let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(5 + length, 0);
        stream.read_exact(&mut record[5..]).expect("its content");
        record
    });
    let record = heard.await.expect("heard");
    assert!(client.await.expect("ended").is_err());
    record
}

/// Reads what the server says until it ends the connection; whether it does so in time.
fn is_closed_by(mut stream: TcpStream, deadline: Instant) -> bool {
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        stream.set_read_timeout(Some(left)).expect("not zero");
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Clients that are silent from the start, after half of what comes first, after all of it, or but for a byte every
/// now and then. There are more of them than the switch keeps connections.
#[tokio::main]
async fn who_stalls_in_the_handshake_holds_up_nobody_and_is_sent_away() {
    const OF_A_KIND: usize = 40;
    const GAP: Duration = Duration::from_millis(100);
    let folder = Folder::new("tls");
    let own = authority();
    let (certificate, key) = signed_by(&own);
    let certificate = file(&folder, "server.pem", &certificate);
    let key = file(&folder, "server.key", &key);
    let options = ["--grpc-server-ssl", "--grpc-server-cert", &certificate];
    let options = [&options[..], &["--grpc-server-key", &key]].concat();
    let switch = Switch::start(&folder, &options);
    let hello = client_hello(trusting(&own)).await;
    let endpoint = endpoint(&switch.address, Some(trusting(&own)));
    let channel = endpoint.connect().await.expect("connected");
    let mut controller = P4RuntimeClient::new(channel);
    // This call lasts, so its connection stays.
    let (_requests, receiver) = tokio::sync::mpsc::channel(1);
    let stream = controller.stream_channel(ReceiverStream::new(receiver));
    let _stream = stream.await.expect("a stream");

    let began = Instant::now();
    let stalled = |said: &[u8]| {
        let mut stream = TcpStream::connect(&switch.address).expect("accepted");
        stream.write_all(said).expect("taken");
        stream
    };
    let mut all = Vec::new();
    let mut slow = Vec::new();
    for _ in 0..OF_A_KIND {
        for said in [&[][..], &hello[..hello.len() / 2], &hello] {
            all.push(stalled(said));
        }
        let stream = stalled(&[]);
        slow.push(stream.try_clone().expect("a descriptor"));
        all.push(stream);
    }
    let said_slowly = hello[..hello.len() - 1].to_vec();
    let speaker = std::thread::spawn(move || {
        for byte in said_slowly {
            slow.retain_mut(|stream| stream.write_all(&[byte]).is_ok());
            if slow.is_empty() {
                return;
            }
            std::thread::sleep(GAP);
        }
    });
    for _ in 0..5 {
        let asked = Instant::now();
        assert!(switch.answers(Some(trusting(&own))).await);
        assert!(asked.elapsed() < FIRST_CALL / 2, "{:?}", asked.elapsed());
    }
    let deadline = began + FIRST_CALL + PATIENCE / 2;
    let closed = tokio::task::spawn_blocking(move || {
        let closed = all.into_iter().map(|stream| is_closed_by(stream, deadline));
        closed.filter(|closed| *closed).count()
    });
    assert_eq!(closed.await.expect("counted"), 4 * OF_A_KIND);
    speaker.join().expect("all of its connections ended");
    let request = CapabilitiesRequest::default();
    controller.capabilities(request).await.expect("answered");
}

ebb_testkit::tests! {
    Need::Nothing => [
        with_tls_only_clients_that_know_the_authority_talk_to_it,
        with_mutual_tls_only_clients_of_the_authority_get_in,
        files_and_options_that_cannot_work_are_explained,
        who_stalls_in_the_handshake_holds_up_nobody_and_is_sent_away,
    ],
}
