"""What is known of each published data set: where it is from, its licence, its files and their checksums."""

from __future__ import annotations

from dataclasses import dataclass

from potluck.data.sets.download import RemoteFile


@dataclass(frozen=True)
class HubSet:
    """A data set on the Hugging Face hub.

    Args:
        repository: whose it is, and its name.
        columns: the columns of inputs and labels, and perhaps of finer labels and of groups, by what they are here.
        splits: the parts that hold the training rows and, where there is one, the test rows.
        configuration: which of its configurations; by default its only one.
    """

    repository: str
    columns: dict[str, str]
    splits: tuple[str, ...] = ("train", "test")
    configuration: str | None = None


@dataclass(frozen=True)
class PublishedSet:
    """A data set that others have published.

    Args:
        name: what run files call it.
        title: its full name.
        licence: under which terms, as far as its publishers say.
        home: where it is described.
        cite: whom to cite.
        patterns: the names of its files, as published; ``*`` and ``?`` stand for anything.
        expected: which files make it whole, in words, for an error.
        files: what is downloaded from the original address; by default nothing can be.
        hub: where it is on the hub; by default nowhere.
        aliases: what else its folder may be called; by default nothing.
    """

    name: str
    title: str
    licence: str
    home: str
    cite: str
    patterns: tuple[str, ...]
    expected: str
    files: tuple[RemoteFile, ...] = ()
    hub: HubSet | None = None
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What its folder, or its file of arrays, may be called."""
        return (self.name, *self.aliases)

    @property
    def size(self) -> int | None:
        """How many bytes are downloaded from the original address; None where that is not known of all files."""
        sizes = [file.size for file in self.files]
        return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)


_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_UCI = "https://archive.ics.uci.edu"

# Sizes and SHA-256 of MNIST, Fashion-MNIST, CIFAR and SVHN as in TensorFlow Datasets, `url_checksums/` and
# `svhn_cropped/checksums.tsv`; torchvision publishes MD5 sums of the same files.
MNIST = PublishedSet(
    "mnist",
    "MNIST: handwritten digits, 60,000 and 10,000 images of 28×28",
    "CC BY-SA 3.0",
    "https://yann.lecun.com/exdb/mnist/",
    'LeCun, Bottou, Bengio and Haffner (1998), "Gradient-based learning applied to document recognition"',
    _IDX,
    f"{', '.join(_IDX)} (or with .gz)",
    tuple(
        RemoteFile(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz", f"{name}.gz", sha256, size)
        for name, size, sha256 in zip(
            _IDX,
            (9912422, 28881, 1648877, 4542),
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
            strict=True,
        )
    ),
    HubSet("ylecun/mnist", {"x": "image", "y": "label"}),
)
FASHION_MNIST = PublishedSet(
    "fashion-mnist",
    "Fashion-MNIST: articles of clothing, 60,000 and 10,000 images of 28×28",
    "MIT",
    "https://github.com/zalandoresearch/fashion-mnist",
    'Xiao, Rasul and Vollgraf (2017), "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning"',
    _IDX,
    f"{', '.join(_IDX)} (or with .gz)",
    tuple(
        RemoteFile(f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz", f"{name}.gz", sha256, size)
        for name, size, sha256 in zip(
            _IDX,
            (26421880, 29515, 4422102, 5148),
            (
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
            strict=True,
        )
    ),
    HubSet("zalando-datasets/fashion_mnist", {"x": "image", "y": "label"}),
)
CIFAR10 = PublishedSet(
    "cifar10",
    "CIFAR-10: photographs of ten kinds of things, 50,000 and 10,000 images of 3×32×32",
    "none stated",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    'Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images"',
    ("data_batch_?.bin", "test_batch.bin", "data_batch_?", "test_batch"),
    "data_batch_1.bin to data_batch_5.bin and test_batch.bin, those of the Python version, or the archive of either",
    (
        RemoteFile(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170052171,
        ),
    ),
    HubSet("uoft-cs/cifar10", {"x": "img", "y": "label"}),
    ("cifar-10-batches-bin", "cifar-10-batches-py"),
)
CIFAR100 = PublishedSet(
    "cifar100",
    "CIFAR-100: photographs of a hundred kinds of things in 20 groups, 50,000 and 10,000 images of 3×32×32",
    "none stated",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    'Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images"',
    ("train.bin", "test.bin", "train", "test"),
    "train.bin and test.bin, train and test of the Python version, or the archive of either",
    (
        RemoteFile(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            168513733,
        ),
    ),
    HubSet("uoft-cs/cifar100", {"x": "img", "y": "fine_label", "coarse": "coarse_label"}),
    ("cifar-100-binary", "cifar-100-python"),
)
SVHN = PublishedSet(
    "svhn",
    "SVHN: house numbers in street views, cropped to digits, 73,257 and 26,032 images of 3×32×32",
    "for non-commercial use only",
    "http://ufldl.stanford.edu/housenumbers/",
    'Netzer, Wang, Coates, Bissacco, Wu and Ng (2011), "Reading Digits in Natural Images with Unsupervised Feature '
    'Learning"',
    ("train_32x32.mat", "test_32x32.mat"),
    "train_32x32.mat and test_32x32.mat",
    (
        RemoteFile(
            "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
            "train_32x32.mat",
            "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            182040794,
        ),
        RemoteFile(
            "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
            "test_32x32.mat",
            "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            64275384,
        ),
    ),
    HubSet("ufldl-stanford/svhn", {"x": "image", "y": "label"}, configuration="cropped_digits"),
)
FEMNIST = PublishedSet(
    "femnist",
    "FEMNIST: handwritten digits and letters by writer, 28×28, 62 classes",
    "images: NIST Special Database 19, public domain; LEAF, which arranged them by writer: BSD 2-Clause",
    "https://leaf.cmu.edu",
    'Caldas et al. (2018), "LEAF: A Benchmark for Federated Settings"',
    ("all_data*.json",),
    "LEAF's train/all_data….json and test/all_data….json",
    hub=HubSet("flwrlabs/femnist", {"x": "image", "y": "character", "groups": "writer_id"}, ("train",)),
    aliases=("leaf-femnist",),
)
# The sums of Adult's files were computed from copies with the MD5 sums that others ask for; those of Heart Disease from
# copies with the MD5 sums that FLamby asks for (`fed_heart_disease/dataset_creation_scripts/download.py`).
ADULT = PublishedSet(
    "adult",
    "Adult: who earns more than 50,000 dollars a year, by a census, 32,561 and 16,281 rows",
    "CC BY 4.0",
    f"{_UCI}/dataset/2/adult",
    "Becker and Kohavi (1996), Adult, UCI Machine Learning Repository",
    ("adult.data", "adult.test"),
    "adult.data and adult.test",
    (
        RemoteFile(
            f"{_UCI}/ml/machine-learning-databases/adult/adult.data",
            "adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            3974305,
        ),
        RemoteFile(
            f"{_UCI}/ml/machine-learning-databases/adult/adult.test",
            "adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            2003153,
        ),
    ),
    aliases=("census-income",),
)
HOSPITALS = {
    "cleveland": ("a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8", 18461),
    "hungarian": ("d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796", 10263),
    "switzerland": ("834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314", 4109),
    "va": ("e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f", 6737),
}
"""Hospital → the SHA-256 and the size of its file."""
HEART_DISEASE = PublishedSet(
    "heart-disease",
    "Heart Disease: who is ill, by 13 findings of 920 patients at four hospitals",
    "CC BY 4.0",
    f"{_UCI}/dataset/45/heart+disease",
    "Janosi, Steinbrunn, Pfisterer and Detrano (1988), Heart Disease, UCI Machine Learning Repository",
    tuple(f"processed.{hospital}.data" for hospital in HOSPITALS),
    ", ".join(f"processed.{hospital}.data" for hospital in HOSPITALS),
    tuple(
        RemoteFile(
            f"{_UCI}/ml/machine-learning-databases/heart-disease/processed.{hospital}.data",
            f"processed.{hospital}.data",
            sha256,
            size,
        )
        for hospital, (sha256, size) in HOSPITALS.items()
    ),
    aliases=("fed-heart-disease",),
)
# As in TensorFlow Datasets, `tiny_shakespeare/checksums.tsv`.
SHAKESPEARE = PublishedSet(
    "shakespeare",
    "Shakespeare: 1,115,394 characters of plays, by who speaks",
    "text: public domain; the collection: MIT",
    "https://github.com/karpathy/char-rnn",
    'Karpathy (2015), "The Unreasonable Effectiveness of Recurrent Neural Networks"',
    ("input.txt", "shakespeare.txt"),
    "input.txt",
    (
        RemoteFile(
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            "input.txt",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            1115394,
        ),
    ),
    aliases=("tinyshakespeare",),
)
# The archive's sum as two independent public projects pin it; nobody here has had the archive itself.
BEIJING_AIR = PublishedSet(
    "beijing-air",
    "Beijing air: hourly air quality and weather at twelve stations, 2013 to 2017",
    "CC BY 4.0",
    f"{_UCI}/dataset/501/beijing+multi+site+air+quality+data",
    'Zhang et al. (2017), "Cautionary Tales on Air-Quality Improvement in Beijing"; Chen (2019), Beijing Multi-Site '
    "Air Quality, UCI Machine Learning Repository",
    ("PRSA_Data_*.csv",),
    "PRSA_Data_….csv of each station, or their archive",
    (
        RemoteFile(
            f"{_UCI}/static/public/501/beijing+multi+site+air+quality+data.zip",
            "beijing+multi+site+air+quality+data.zip",
            "b04da438b2f331ac0ffd45aebdfec0d20d2367feb5f6948c4b1f7ce1191e33c4",
        ),
    ),
    aliases=("beijing-multi-site-air-quality", "prsa-data-20130301-20170228"),
)

CATALOG = {
    each.name: each
    for each in (
        MNIST,
        FASHION_MNIST,
        CIFAR10,
        CIFAR100,
        SVHN,
        FEMNIST,
        ADULT,
        HEART_DISEASE,
        SHAKESPEARE,
        BEIJING_AIR,
    )
}
"""The published data sets, by name."""
