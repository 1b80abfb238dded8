//! How a server starts: with TLS, and with a program that no controller has installed.

use std::path::{Path, PathBuf};

use crate::common::{Controller, DEVICE_ID, OneSwitch, Running, config, fixture};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::{Server, TlsFiles, read_config};
use ebb_testkit::Folder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::Code;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

/// The program as the compiler writes it.
fn files(folder: &Folder) -> (PathBuf, PathBuf) {
    let compiled = fixture::compiled("entities");
    let info = ebb_p4c::p4info::to_text(&compiled.p4info);
    (
        folder.write("entities.json", compiled.json.to_json()),
        folder.write("entities.p4info.txtpb", info),
    )
}

fn server() -> Server {
    Server::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap()
}

#[tokio::test]
async fn a_program_with_its_p4info_is_there_from_the_start() {
    let folder = Folder::new("preload");
    let (json, info) = files(&folder);
    let files = read_config(&json, &info).unwrap();
    assert_eq!(files.cookie, None);
    // A controller that knows the cookie need not push.
    let expected = config();
    let whole = p4::ForwardingPipelineConfig {
        cookie: expected.cookie,
        ..files
    };
    assert_eq!(whole, expected);
    let server = server().preload(0..1, whole).unwrap();
    let running = Running::with(server, OneSwitch::start());
    let mut c = Controller::connect(&running, 1).await;
    assert_eq!(c.arbitration().await, Code::Ok);
    assert!(running.switch.has_program());
    let request = p4::GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    let response = c.client.get_forwarding_pipeline_config(request).await;
    assert_eq!(response.unwrap().into_inner().config, Some(expected));
    c.write_all(Vec::new()).await.unwrap();
    running.stop().await;
}

#[test]
fn files_that_do_not_fit_say_so() {
    let folder = Folder::new("misfits");
    let (json, info) = files(&folder);
    let message = |a: &Path, b: &Path| read_config(a, b).unwrap_err().to_string();
    assert!(message(&json, &json).contains("entities.json is no P4Info"));
    assert!(message(&folder.join("none.json"), &info).starts_with("cannot read "));
    let mut wrong = config();
    wrong.p4_device_config = b"{}".to_vec();
    let error = server().preload(0..1, wrong).err().unwrap().to_string();
    assert!(error.starts_with("the program to start with cannot be loaded: "));
    let files = TlsFiles {
        certificate: json.clone(),
        key: json,
        client_authority: None,
    };
    let error = server().with_tls(&files).err().unwrap().to_string();
    assert!(error.ends_with("is not PEM: expected a line \"-----BEGIN CERTIFICATE\""));
}

#[tokio::test]
async fn with_mutual_tls_only_clients_of_the_authority_get_in() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = || {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let folder = Folder::new("tls");
    let (certificate, key) = signed();
    let mut files = TlsFiles {
        certificate: folder.write("server.pem", &certificate),
        key: folder.write("server.key", &key),
        client_authority: None,
    };
    let root = Certificate::from_pem(authority.pem());
    let known = ClientTlsConfig::new()
        .ca_certificate(root)
        .domain_name("localhost");
    let (certificate, key) = signed();
    let proven = known.clone().identity(Identity::from_pem(certificate, key));

    let one_sided = Running::with(server().with_tls(&files).unwrap(), OneSwitch::start());
    assert!(asks(&one_sided, Some(known.clone())).await);
    assert!(!asks(&one_sided, None).await, "without TLS");
    one_sided.stop().await;

    files.client_authority = Some(folder.write("authority.pem", authority.pem()));
    let mutual = Running::with(server().with_tls(&files).unwrap(), OneSwitch::start());
    assert!(asks(&mutual, Some(proven)).await);
    assert!(!asks(&mutual, Some(known)).await, "without a certificate");
    mutual.stop().await;
}

/// Whether a client gets an answer.
async fn asks(server: &Running, tls: Option<ClientTlsConfig>) -> bool {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Channel::from_shared(format!("{scheme}://{}", server.address)).unwrap();
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls).unwrap();
    }
    let Ok(channel) = endpoint.connect().await else {
        return false;
    };
    let request = p4::CapabilitiesRequest::default();
    P4RuntimeClient::new(channel)
        .capabilities(request)
        .await
        .is_ok()
}
