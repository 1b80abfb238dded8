use num_bigint::BigInt;
use proptest::prelude::*;

use super::range::{Demand, fits};
use super::*;
use crate::layout::Layout;
use crate::slot::store;
use crate::stateful::{ArraySpec, RegisterArray, RegisterRef, RegisterSpec, Registers};

/// Fields of many widths, signed and not, each at its own place.
fn slots() -> Vec<Slot> {
    let mut at = 0;
    [1, 7, 8, 16, 31, 32, 63, 64, 65, 100, 127, 128, 200]
        .iter()
        .flat_map(|bits| [(*bits, false), (*bits, true)])
        .map(|(bits, signed)| {
            let words = crate::bits::words_for(bits) as u32;
            at += words;
            Slot {
                at: at - words,
                words,
                bits,
                signed,
            }
        })
        .collect()
}

fn leaf() -> impl Strategy<Value = Num> {
    prop_oneof![
        (0..slots().len()).prop_map(|i| Num::Field(slots()[i])),
        any::<i64>().prop_map(|n| Num::Const(i128::from(n))),
        (0u32..126).prop_map(|n| Num::Const((1 << n) - 1)),
        (0i128..9).prop_map(Num::Const),
        register(),
    ]
}

const REGISTERS: [u32; 6] = [16, 64, 100, 127, 128, 200];

fn register() -> impl Strategy<Value = Num> {
    (0..REGISTERS.len(), 0i128..5).prop_map(|(number, index)| {
        let register = RegisterRef {
            number: number as u32,
            bits: REGISTERS[number],
        };
        Num::Register(register, Box::new(Num::Const(index)))
    })
}

/// Four cells of each width, with bits out of `words`.
fn registers(words: &[u64]) -> Registers {
    let array = |bits: &u32| {
        let (name, size) = ("r".into(), 4);
        let mut array = RegisterArray::new(&RegisterSpec {
            array: ArraySpec { name, size },
            bits: *bits,
            initial: vec![0; crate::bits::words_for(*bits)].into(),
        });
        for index in 0..4 {
            let slot = array.slot(index).unwrap();
            let cell = slot.of_mut(&mut array.words);
            cell.copy_from_slice(&words[index as usize..][..cell.len()]);
            cell[0] &= crate::bits::low_mask((bits - 1) % 64 + 1);
        }
        array
    };
    Registers {
        arrays: REGISTERS.iter().map(array).collect(),
    }
}

fn layout() -> Layout {
    let mut layout = Layout::default();
    layout.shortcuts = true;
    layout
}

fn op() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp::*;
    prop::sample::select(vec![Add, Sub, Mul, Div, Mod, Shl, Shr, And, Or, Xor])
}

fn tree() -> impl Strategy<Value = Num> {
    leaf().prop_recursive(4, 24, 2, |inner| {
        let cast = prop::sample::select(vec![Cast::Wrap, Cast::Saturate, Cast::SaturateUnsigned]);
        prop_oneof![
            4 => (op(), inner.clone(), inner.clone())
                .prop_map(|(op, a, b)| Num::Binary(op, Box::new(a), Box::new(b))),
            1 => inner.clone().prop_map(|a| Num::Not(Box::new(a))),
            1 => (condition(inner.clone().boxed()), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| Num::If(Box::new(c), Box::new(a), Box::new(b))),
            1 => condition(inner.clone().boxed()).prop_map(|c| Num::FromBool(Box::new(c))),
            2 => (cast, inner, 1u32..130).prop_map(|(c, a, w)| Num::Cast(c, Box::new(a), w)),
        ]
    })
}

fn condition(num: BoxedStrategy<Num>) -> impl Strategy<Value = Bool> {
    use Compare::*;
    let leaf = (
        prop::sample::select(vec![Eq, Ne, Lt, Le, Gt, Ge]),
        num.clone(),
        num,
    )
        .prop_map(|(op, a, b)| Bool::CompareBig(op, Box::new(a), Box::new(b)));
    leaf.prop_recursive(1, 2, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Bool::Not(Box::new(a))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Bool::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Bool::Or(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Bool::Same(Box::new(a), Box::new(b))),
        ]
    })
}

/// `words` as they are in a packet: zero above each field.
fn cut(words: &mut [u64]) {
    for s in slots() {
        if s.bits % 64 != 0 {
            words[s.at as usize] &= crate::bits::low_mask(s.bits % 64);
        }
    }
}

fn low_128(n: &BigInt) -> i128 {
    let modulus = BigInt::from(1) << 128;
    let low: BigInt = ((n % &modulus) + &modulus) % &modulus;
    u128::try_from(&low).unwrap() as i128
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(500)))]

    /// Where `i128` is said to be enough, it gives what big integers give.
    #[test]
    fn narrow_arithmetic_is_right_where_it_is_chosen(
        num in tree(),
        mut words in proptest::collection::vec(any::<u64>(), 64),
    ) {
        cut(&mut words);
        let (layout, registers) = (layout(), registers(&words));
        let scope = Scope { words: &words, data: &[], registers: &registers, layout: &layout };
        if fits(&num, Demand::Exact) {
            prop_assert_eq!(BigInt::from(num.eval(&scope)), num.eval_big(&scope));
        }
        if fits(&num, Demand::Low) {
            prop_assert_eq!(num.eval(&scope), low_128(&num.eval_big(&scope)));
        }
    }

    /// Where 64 bits are said to be enough, they give what big integers give.
    #[test]
    fn word_arithmetic_is_right_where_it_is_chosen(
        num in tree(),
        bits in 1u32..=64,
        mut words in proptest::collection::vec(any::<u64>(), 64),
    ) {
        cut(&mut words);
        let (layout, registers) = (layout(), registers(&words));
        let scope = Scope { words: &words, data: &[], registers: &registers, layout: &layout };
        let big = num.eval_big(&scope);
        if let Some(word) = Word::exact(&num, &layout) {
            prop_assert_eq!(BigInt::from(word.eval(&scope)), big.clone());
        }
        if let Some(word) = Word::low(&num, bits, &layout) {
            let mask = crate::bits::low_mask(bits);
            prop_assert_eq!(word.eval(&scope) & mask, low_128(&big) as u64 & mask);
        }
    }

    /// Where a number is said to have so few bits that it leads to a cell of an array, it has no more.
    #[test]
    fn an_index_that_is_not_compared_is_one(
        tree in tree(),
        size in prop_oneof![0u32..9, 0u32..70_000],
        mut words in proptest::collection::vec(any::<u64>(), 64),
    ) {
        cut(&mut words);
        let (layout, registers) = (layout(), registers(&words));
        let scope = Scope { words: &words, data: &[], registers: &registers, layout: &layout };
        let number = Number::exact(tree, &layout);
        if let Some(bits) = number.bits_inside(size) {
            let value = number.tree.eval_big(&scope);
            prop_assert!(value >= BigInt::ZERO && value < BigInt::from(1u64 << bits));
            prop_assert!(1u64 << bits <= u64::from(size));
        }
    }

    #[test]
    fn conditions_hold_in_both_arithmetics(
        condition in condition(tree().boxed()),
        mut words in proptest::collection::vec(any::<u64>(), 64),
    ) {
        cut(&mut words);
        let (layout, registers) = (layout(), registers(&words));
        let scope = Scope { words: &words, data: &[], registers: &registers, layout: &layout };
        prop_assert_eq!(Test::new(&condition, &layout).eval(&scope), condition.eval(&scope));
    }

    /// Both ways of storing a number cut it in the same way.
    #[test]
    fn both_stores_agree(value in any::<i128>(), i in 0..slots().len()) {
        let slot = slots()[i];
        let mut narrow = vec![0u64; 64];
        let mut big = narrow.clone();
        store(&mut narrow, slot, value);
        crate::slot::store_big(&mut big, slot, &BigInt::from(value));
        prop_assert_eq!(narrow, big);
    }
}

fn eval(num: Num) -> i128 {
    let (layout, registers) = (layout(), Registers::default());
    num.eval(&Scope {
        words: &[],
        data: &[],
        registers: &registers,
        layout: &layout,
    })
}

#[test]
fn casts_follow_p4_16() {
    let cast = |c, n, w| eval(Num::Cast(c, Box::new(Num::Const(n)), w));
    assert_eq!(cast(Cast::Wrap, 257, 8), 1);
    assert_eq!(cast(Cast::Wrap, -129, 8), 127);
    assert_eq!(cast(Cast::Wrap, 128, 8), -128);
    assert_eq!(cast(Cast::Saturate, 300, 8), 127);
    assert_eq!(cast(Cast::Saturate, -300, 8), -128);
    assert_eq!(cast(Cast::SaturateUnsigned, 300, 8), 255);
    assert_eq!(cast(Cast::SaturateUnsigned, -1, 8), 0);
}

#[test]
fn an_array_of_two_to_the_width_has_all_indices() {
    let slot = |bits, signed| Slot {
        at: 0,
        words: 1,
        bits,
        signed,
    };
    let bits_inside = |num, size| Number::exact(num, &layout()).bits_inside(size);
    assert_eq!(bits_inside(Num::Field(slot(9, false)), 512), Some(9));
    assert_eq!(bits_inside(Num::Field(slot(9, false)), 511), None);
    assert_eq!(bits_inside(Num::Field(slot(9, true)), 512), None);
    assert_eq!(bits_inside(Num::Field(slot(32, false)), u32::MAX), None);
    assert_eq!(bits_inside(Num::Const(0), 0), None);
    assert_eq!(bits_inside(Num::Const(3), 4), Some(2));
}

#[test]
fn undefined_operations_give_zero() {
    let op = |op, a, b| {
        eval(Num::Binary(
            op,
            Box::new(Num::Const(a)),
            Box::new(Num::Const(b)),
        ))
    };
    assert_eq!(op(BinaryOp::Div, 7, 0), 0);
    assert_eq!(op(BinaryOp::Mod, 7, 0), 0);
    assert_eq!(op(BinaryOp::Shl, 1, 1 << 40), 0);
    assert_eq!(op(BinaryOp::Shr, -8, 1), -4);
    assert_eq!(op(BinaryOp::Shr, 8, 1 << 40), 0);
}

/// A quotient by a negative number is no index that can be taken unseen.
#[test]
fn a_quotient_by_a_negative_number_may_be_negative() {
    let seven_bits = Num::Field(slots()[2]);
    let inside = |by: i128| {
        let quotient = Num::Binary(
            BinaryOp::Div,
            Box::new(seven_bits.clone()),
            Box::new(Num::Const(by)),
        );
        Number::exact(quotient, &layout()).bits_inside(1 << 10)
    };
    assert_eq!((inside(2), inside(-2)), (Some(7), None));
}
