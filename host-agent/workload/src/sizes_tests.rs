use super::*;

const N: u32 = 200_000;

fn draw(distribution: &SizeDistribution) -> Vec<u64> {
    distribution.check("size").unwrap();
    let mut draws = Draws::new(7, "test", "sizes");
    let mut sizes: Vec<u64> = (0..N)
        .map(|_| distribution.draw_bytes(&mut draws))
        .collect();
    sizes.sort_unstable();
    sizes
}

fn mean(sizes: &[u64]) -> f64 {
    sizes.iter().map(|&size| size as f64).sum::<f64>() / sizes.len() as f64
}

fn share_up_to(sizes: &[u64], bytes: u64) -> f64 {
    sizes.partition_point(|&size| size <= bytes) as f64 / sizes.len() as f64
}

/// 4 standard errors of a share: a right generator is outside once in 16,000 seeds.
fn assert_share(sizes: &[u64], bytes: u64, expected: f64) {
    let share = share_up_to(sizes, bytes);
    let bound = 4.0 * (expected * (1.0 - expected) / f64::from(N)).sqrt();
    assert!(
        (share - expected).abs() <= bound,
        "P(X <= {bytes}) = {share}, expected {expected} +- {bound}"
    );
}

/// 4 standard errors of the mean, from the spread of the sample itself: all but one of these
/// distributions are bounded.
fn assert_mean(sizes: &[u64], expected: f64) {
    let found = mean(sizes);
    let variance = sizes
        .iter()
        .map(|&size| (size as f64 - found).powi(2))
        .sum::<f64>()
        / f64::from(N);
    // Half a byte for rounding.
    let bound = 4.0 * (variance / f64::from(N)).sqrt() + 0.5;
    assert!(
        (found - expected).abs() <= bound,
        "mean {found}, expected {expected} +- {bound}"
    );
}

fn parse(text: &str) -> Result<SizeDistribution, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn web_search_is_its_table() {
    let distribution = SizeDistribution::WebSearch {};
    // scdp.md of the project's notes: 1.71 MB.
    assert!((distribution.mean_bytes() - 1_711_250.0).abs() < 1.0);
    let sizes = draw(&distribution);
    for &(bytes, share) in &tables::WEB_SEARCH[1..] {
        assert_share(&sizes, bytes, share);
    }
    // Between the points: straight.
    assert_share(&sizes, 15_000, 0.175);
    assert_share(&sizes, 600_000, 0.65);
    assert_share(&sizes, 20_000_000, 0.985);
    assert_mean(&sizes, distribution.mean_bytes());
}

#[test]
fn data_mining_is_its_table() {
    let distribution = SizeDistribution::DataMining {};
    // 12.7 MB.
    assert!((distribution.mean_bytes() - 12_658_800.0).abs() < 1_000.0);
    let sizes = draw(&distribution);
    for &(bytes, share) in &tables::DATA_MINING[1..] {
        assert_share(&sizes, bytes, share);
    }
    assert_share(&sizes, 550_000_000, 0.99);
    assert_mean(&sizes, distribution.mean_bytes());
}

/// Above its minimum, with a cap that a tenth of the sizes reach, and without.
#[test]
fn exponential_has_its_closed_form() {
    let (min_bytes, mean_bytes, scale) = (800_000, 20_800_000, 20e6);
    let tenth = 800_000 + (scale * f64::ln(10.0)) as u64;
    for cap_bytes in [None, Some(tenth)] {
        let distribution = SizeDistribution::Exponential {
            min_bytes,
            mean_bytes,
            cap_bytes,
        };
        let sizes = draw(&distribution);
        assert!(sizes[0] >= min_bytes);
        for (bytes, above) in [(5_000_000, 0.81058), (20_800_000, 0.36788)] {
            assert_share(&sizes, bytes, 1.0 - above);
        }
        let capped = 1.0 - share_up_to(&sizes, tenth - 1);
        assert!((capped - 0.1).abs() < 0.003, "{capped}");
        assert_eq!(sizes.last() == Some(&tenth), cap_bytes.is_some());
        let expected = 20_800_000.0 - if cap_bytes.is_some() { 2e6 } else { 0.0 };
        assert!((distribution.mean_bytes() - expected).abs() < 1.0);
        assert_mean(&sizes, expected);
    }
}

/// HULL section 6.3 says that 95 % of the flows are below 100 KB and 0.03 % above 10 MB; Pareto's
/// closed form has 95.9 % and 0.032 %.
#[test]
fn pareto_has_its_closed_form() {
    let (shape, mean_bytes) = (1.05, 100_000);
    let distribution = SizeDistribution::Pareto {
        shape,
        mean_bytes,
        cap_bytes: None,
    };
    assert_eq!(distribution.mean_bytes(), 100_000.0);
    let sizes = draw(&distribution);
    let minimum = 100_000.0 * 0.05 / 1.05;
    assert_eq!(sizes[0], 4_762);
    for bytes in [5_000, 10_000, 21_000, 100_000, 1_000_000, 10_000_000] {
        let expected = 1.0 - (minimum / bytes as f64).powf(shape);
        assert_share(&sizes, bytes, expected);
    }
    let below_100_kb = share_up_to(&sizes, 100_000);
    assert!((below_100_kb - 0.959).abs() < 0.002, "{below_100_kb}");
}

#[test]
fn a_capped_pareto_has_the_mean_of_what_it_draws() {
    let distribution = SizeDistribution::Pareto {
        shape: 1.2,
        mean_bytes: 50_000,
        cap_bytes: Some(10_000_000),
    };
    // By numeric integration of P(X > x) up to the cap.
    let minimum = 50_000.0 * 0.2 / 1.2;
    let steps = 1_000_000;
    let (low, high) = (f64::ln(minimum), f64::ln(1e7));
    let width = (high - low) / f64::from(steps);
    let integral: f64 = (0..steps)
        .map(|step| {
            let x = (low + (f64::from(step) + 0.5) * width).exp();
            (minimum / x).powf(1.2) * x * width
        })
        .sum();
    let expected = minimum + integral;
    assert!((distribution.mean_bytes() / expected - 1.0).abs() < 1e-6);
    let sizes = draw(&distribution);
    assert_eq!(*sizes.last().unwrap(), 10_000_000);
    assert_mean(&sizes, expected);
}

#[test]
fn uniform_and_fixed() {
    let distribution = SizeDistribution::Uniform {
        min_bytes: 10,
        max_bytes: 13,
    };
    let sizes = draw(&distribution);
    assert_eq!((sizes[0], *sizes.last().unwrap()), (10, 13));
    for (bytes, share) in [(10, 0.25), (11, 0.5), (12, 0.75)] {
        assert_share(&sizes, bytes, share);
    }
    assert_eq!(distribution.mean_bytes(), 11.5);
    let fixed = SizeDistribution::Fixed { bytes: 70_000 };
    assert_eq!(mean(&draw(&fixed)), 70_000.0);
}

#[test]
fn a_mixture_draws_by_weight() {
    let distribution = parse(
        r#"
        type = "mixture"
        parts = [
            { weight = 4, size = { type = "fixed", bytes = 1000 } },
            { weight = 1, size = { type = "fixed", bytes = 10000000 } },
        ]"#,
    )
    .unwrap();
    // HULL section 6.2.
    assert_eq!(distribution.mean_bytes(), 2_000_800.0);
    let sizes = draw(&distribution);
    assert_share(&sizes, 1000, 0.8);
    assert_mean(&sizes, 2_000_800.0);
}

#[test]
fn an_empirical_distribution_comes_from_a_file() {
    let mut distribution = parse(
        r#"
        type = "empirical"
        file = "sizes.txt""#,
    )
    .unwrap();
    let text = "# bytes share\n100 0.25  # a quarter has 100 bytes\n\n200 0.25\n400 1\n";
    distribution
        .load("size", &mut |name| {
            assert_eq!(name, "sizes.txt");
            Ok(text.into())
        })
        .unwrap();
    let sizes = draw(&distribution);
    assert_share(&sizes, 100, 0.25);
    assert_share(&sizes, 200, 0.25);
    assert_share(&sizes, 300, 0.625);
    assert_eq!(distribution.mean_bytes(), 0.25 * 100.0 + 0.75 * 300.0);
    assert_mean(&sizes, distribution.mean_bytes());
}

#[test]
fn steps_draw_the_points_only() {
    let distribution = SizeDistribution::Empirical {
        points: vec![(10, 0.5), (20, 0.5), (30, 1.0)],
        file: None,
        interpolation: Interpolation::Step,
    };
    let sizes = draw(&distribution);
    assert!(sizes.iter().all(|size| [10, 30].contains(size)));
    assert_share(&sizes, 10, 0.5);
    assert_eq!(distribution.mean_bytes(), 20.0);
}

#[test]
fn what_is_wrong_is_told() {
    let check = |text: &str| parse(text).unwrap().check("size").unwrap_err().to_string();
    assert_eq!(
        check("type = 'exponential'\nmin_bytes = 9\nmean_bytes = 9"),
        "size: mean_bytes is 9, expected above min_bytes, which is 9"
    );
    assert_eq!(
        check("type = 'exponential'\nmin_bytes = 9\nmean_bytes = 10\ncap_bytes = 9"),
        "size: cap_bytes is 9, expected above min_bytes, which is 9"
    );
    assert_eq!(
        check("type = 'pareto'\nshape = 1.0\nmean_bytes = 1000"),
        "size: shape is 1, expected above 1 (otherwise there is no mean)"
    );
    assert_eq!(
        check("type = 'uniform'\nmin_bytes = 3\nmax_bytes = 2"),
        "size: min_bytes is 3, expected 1 to max_bytes, which is 2"
    );
    assert_eq!(
        check("type = 'empirical'\npoints = [[1, 0.5], [2, 0.9]]"),
        "size: points: the last share is 0.9, expected 1"
    );
    assert_eq!(
        check("type = 'empirical'\npoints = [[2, 0.5], [1, 1.0]]"),
        "size: points: bytes must rise, and shares from 0 to 1 must not fall"
    );
    assert_eq!(
        check("type = 'empirical'\npoints = [[2, nan], [3, 1.0]]"),
        "size: points: bytes must rise, and shares from 0 to 1 must not fall"
    );
    assert_eq!(
        check("type = 'mixture'\nparts = [{ weight = 0, size = { type = 'web-search' } }]"),
        "size part 0: weight is 0, expected above 0"
    );
    assert_eq!(
        parse_points("0 0\n10 x\n").unwrap_err(),
        "line 2: expected `bytes share`, e.g. `10000 0.15`"
    );
    let unknown = parse("type = 'pareto'\nshape = 1.5\nmean = 3").unwrap_err();
    assert!(
        unknown.contains("unknown field `mean`")
            && unknown.contains("`shape`, `mean_bytes`, `cap_bytes`"),
        "{unknown}"
    );
    let nothing = parse("type = 'web-search'\nbytes = 3").unwrap_err();
    assert!(nothing.contains("unknown field `bytes`"), "{nothing}");
}
