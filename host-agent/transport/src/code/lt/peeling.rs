//! The order in which symbols give source symbols away, found without looking at a payload.

use super::graph::Rows;

/// How to decode.
#[derive(Debug)]
pub struct Plan {
    /// Row and source symbol: all other neighbours of the row are inactive or stand before it here.
    pub resolved: Vec<(usize, u16)>,
    /// Source symbols that peeling did not reach, which elimination has to find.
    pub inactive: Vec<u16>,
    /// Rows that are left: all their neighbours are resolved or inactive.
    pub rest: Vec<usize>,
}

/// Peels all there is. Where no row has a single unknown neighbour left, the unknown source symbol
/// that most of them have becomes inactive: to peeling it is known.
pub fn plan(rows: &Rows, source_symbols: usize) -> Plan {
    let mut peeler = Peeler::new(rows, source_symbols);
    let (mut resolved, mut inactive) = (Vec::new(), Vec::new());
    let mut used = vec![false; rows.count()];
    loop {
        if let Some(row) = peeler.ripple.pop() {
            if let Some(source) = peeler.only_unknown(row) {
                used[row] = true;
                resolved.push((row, source));
                peeler.know(source);
            }
        } else if let Some(source) = peeler.busiest() {
            inactive.push(source);
            peeler.know(source);
        } else {
            break;
        }
    }
    let rest = (0..rows.count()).filter(|&row| !used[row]).collect();
    Plan {
        resolved,
        inactive,
        rest,
    }
}

struct Peeler {
    /// Rows of each source symbol.
    rows_of: Vec<Vec<u32>>,
    /// Unknown neighbours of each row, and the XOR of their numbers: of one, the number.
    unknown: Vec<(u16, u16)>,
    known: Vec<bool>,
    /// Rows with one unknown neighbour, or with none any more.
    ripple: Vec<usize>,
}

impl Peeler {
    fn new(rows: &Rows, source_symbols: usize) -> Self {
        let mut rows_of = vec![Vec::new(); source_symbols];
        let mut unknown = Vec::with_capacity(rows.count());
        let mut ripple = Vec::new();
        for row in 0..rows.count() {
            let neighbours = rows.neighbours(row);
            for &source in neighbours {
                rows_of[usize::from(source)].push(row as u32);
            }
            let all = neighbours.iter().fold(0, |all, source| all ^ source);
            unknown.push((neighbours.len() as u16, all));
            if neighbours.len() == 1 {
                ripple.push(row);
            }
        }
        Peeler {
            rows_of,
            unknown,
            known: vec![false; source_symbols],
            ripple,
        }
    }

    fn only_unknown(&self, row: usize) -> Option<u16> {
        let (count, source) = self.unknown[row];
        (count == 1).then_some(source)
    }

    /// The unknown source symbol that most rows have.
    fn busiest(&self) -> Option<u16> {
        let unknown = (0..self.known.len()).filter(|&source| !self.known[source]);
        let busiest = unknown.max_by_key(|&source| self.rows_of[source].len())?;
        Some(busiest as u16)
    }

    fn know(&mut self, source: u16) {
        self.known[usize::from(source)] = true;
        for &row in &self.rows_of[usize::from(source)] {
            let (count, all) = &mut self.unknown[row as usize];
            *count -= 1;
            *all ^= source;
            if *count == 1 {
                self.ripple.push(row as usize);
            }
        }
    }
}
